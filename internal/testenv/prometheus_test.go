package testenv

import (
	"net/http/httptest"
	"strings"
	"testing"
)

func TestPrometheusIsReadyWhenATestGetsIt(t *testing.T) {
	target := httptest.NewServer(nil)
	defer target.Close()

	url := Prometheus(t, strings.TrimPrefix(target.URL, "http://"))

	if err := answersOK(url + "/-/ready"); err != nil {
		t.Error(err)
	}
}

func TestPromtoolSaysWhatIsWrong(t *testing.T) {
	if out, err := Promtool(t, "", "check", "rules", "no-such-file.yml"); err == nil {
		t.Errorf("it accepts a file that is not there: %s", out)
	}
}
