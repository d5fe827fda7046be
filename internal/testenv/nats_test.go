package testenv

import "testing"

func TestNATSIsSharedByTheTestsOfAProcess(t *testing.T) {
	if first, second := NATS(t), NATS(t); first != second {
		t.Errorf("%s and %s", first, second)
	}
}

func TestPrivateNATSKeepsItsAddressOverAKill(t *testing.T) {
	server := PrivateNATS(t, "max_payload: 64KB")
	url := server.URL()

	server.Kill()
	if server.server.ready() == nil {
		t.Fatal("the killed server answers")
	}
	server.Start()

	if server.URL() != url {
		t.Errorf("it moved from %s to %s", url, server.URL())
	}
	if err := server.server.ready(); err != nil {
		t.Error(err)
	}
}

func TestAPausedNATSDoesNotAnswer(t *testing.T) {
	server := PrivateNATS(t)

	server.Pause()
	paused := server.server.ready()
	server.Resume()

	if paused == nil {
		t.Error("it answered")
	}
	if err := server.server.ready(); err != nil {
		t.Error(err)
	}
}
