package ops

import (
	"slices"
	"sync"

	"github.com/google/uuid"
)

// bells are how SetJob reaches the drivers of this process. They belong to the process
// because whoever sets a job does not know who drives it.
var bells = bellBoard{hung: make(map[uuid.UUID][]chan struct{})}

// A bellBoard has a bell for each driver of a job.
type bellBoard struct {
	mu   sync.Mutex
	hung map[uuid.UUID][]chan struct{}
}

func (b *bellBoard) hang(job uuid.UUID) chan struct{} {
	bell := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hung[job] = append(b.hung[job], bell)
	return bell
}

func (b *bellBoard) takeDown(job uuid.UUID, bell chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := slices.DeleteFunc(b.hung[job], func(hung chan struct{}) bool { return hung == bell })
	if len(left) == 0 {
		delete(b.hung, job)
		return
	}
	b.hung[job] = left
}

// ring wakes every driver of a job. One that has not answered the last ring looks at
// the job after this one too.
func (b *bellBoard) ring(job uuid.UUID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, bell := range b.hung[job] {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
}
