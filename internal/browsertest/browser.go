package browsertest

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/go-outbox/outbox/internal/testenv"
)

// A Step is something to do in the tab.
type Step = chromedp.Action[chromedp.Void]

// A Browser is one headless Chromium with one tab. It ends with the context that it was
// opened with, or with Close.
type Browser struct {
	tab     func() context.Context
	do      func(...Step) error
	picture func() ([]byte, error)
	close   func()
	group   sync.WaitGroup

	mu       sync.Mutex
	problems []string
}

// Find returns the path of the browser on this machine.
func Find() (string, error) { return testenv.ChromiumPath() }

// Open starts the browser at path.
func Open(ctx context.Context, path string) (*Browser, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.DisableGPU, chromedp.Flag("lang", "en-US"),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("force-color-profile", "srgb"))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has no sandbox for root
	}
	allocator, closeAllocator := chromedp.NewExecAllocator(ctx, options...)
	tab, closeTab := chromedp.NewContext(allocator)
	b := &Browser{
		tab:     func() context.Context { return tab },
		do:      func(steps ...Step) error { return chromedp.Do(tab, steps...) },
		picture: func() ([]byte, error) { return chromedp.Run(tab, chromedp.CaptureScreenshot()) },
		close:   func() { closeTab(); closeAllocator() },
	}
	messages := chromedp.Console(tab)
	if err := b.Do(chromedp.Navigate("about:blank")); err != nil {
		b.Close()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	b.group.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			b.listen(m)
		}
	})
	return b, nil
}

// Tab is the context that drives the tab: pass it to chromedp.
func (b *Browser) Tab() context.Context { return b.tab() }

// Close ends the browser and waits for it.
func (b *Browser) Close() {
	b.close()
	b.group.Wait()
}

// listen collects what a person would see in red or yellow in the console of the
// browser: exceptions, errors, warnings, and everything about security.
func (b *Browser) listen(m chromedp.ConsoleMessage) {
	if !m.IsException() && m.Type != "error" && m.Type != "warning" && m.Type != "assert" && m.Source != "security" && m.Source != "violation" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, fmt.Sprintf("%s %s: %s %s", m.Source, m.Type, m.Text, m.URL))
}

// Problems returns what went wrong in the pages since the last call.
func (b *Browser) Problems() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.problems
	b.problems = nil
	return found
}

// Do performs steps in the tab.
func (b *Browser) Do(steps ...Step) error { return b.do(steps...) }

// Picture is what the window shows, as a PNG.
func (b *Browser) Picture() ([]byte, error) { return b.picture() }

// Look sets the size of the window and the colour scheme that pages see.
func Look(width, height int64, scheme string) Step {
	return chromedp.Steps(
		chromedp.EmulateViewport(width, height),
		chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			return err
		}),
	)
}
