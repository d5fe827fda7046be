package testenv

import (
	"fmt"
	"testing"
	"time"
)

func TestRedisGivesEveryTestItsOwnEmptyDatabase(t *testing.T) {
	var first *RedisDB
	t.Run("owner", func(t *testing.T) {
		first = Redis(t)
		second := Redis(t)
		if first.URL() == second.URL() {
			t.Fatalf("both got %s", first.URL())
		}
		mustRedis(t, first.Addr(), fmt.Sprint("SELECT ", first.number), "SET mine 1")
		if n := mustRedis(t, second.Addr(), fmt.Sprint("SELECT ", second.number), "DBSIZE"); n != "0" {
			t.Errorf("the second database holds %s keys", n)
		}
	})
	if first == nil {
		t.Skip("no server")
	}
	if n := mustRedis(t, first.Addr(), fmt.Sprint("SELECT ", first.number), "DBSIZE"); n != "0" {
		t.Errorf("%s keys outlived their test", n)
	}
}

func TestPrivateRedisKeepsWhatItAcknowledgedOverAKill(t *testing.T) {
	server := PrivateRedis(t, "maxmemory 64mb")
	addr := server.Addr()

	for i := range 3 {
		mustRedis(t, addr, "INCR kept")
		server.Kill()
		if _, err := redisCall(addr, "PING"); err == nil {
			t.Fatal("the killed server answers")
		}
		server.Start()
		if got, want := mustRedis(t, addr, "INCRBY kept 0"), fmt.Sprint(i+1); got != want {
			t.Fatalf("%s of %s writes survived", got, want)
		}
	}
}

func TestAPausedRedisAnswersWhenItIsResumed(t *testing.T) {
	server := PrivateRedis(t)
	server.Pause()
	answered := make(chan error, 1)
	go func() {
		_, err := redisCall(server.Addr(), "PING")
		answered <- err
	}()

	select {
	case err := <-answered:
		t.Errorf("answered while it was paused: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	server.Resume()

	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func mustRedis(t *testing.T, addr string, commands ...string) string {
	t.Helper()
	answer, err := redisCall(addr, commands...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}
