package metrics_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"go.yaml.in/yaml/v3"

	"github.com/go-outbox/outbox/metrics"
)

const (
	rulesFile     = "../deploy/prometheus/outbox.rules.yml"
	ruleTestsFile = "../deploy/prometheus/outbox.rules.test.yml"
	dashboardFile = "../deploy/grafana/outbox.json"
	docsFile      = "../docs/observability.md"
	runbookFile   = "../docs/runbook.md"
)

func file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func rules(t *testing.T) []rule {
	t.Helper()
	var doc struct {
		Groups []struct {
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal([]byte(file(t, rulesFile)), &doc); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, g := range doc.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// queries returns every PromQL expression of the dashboard, variables included.
func queries(t *testing.T) []string {
	t.Helper()
	var doc any
	if err := json.Unmarshal([]byte(file(t, dashboardFile)), &doc); err != nil {
		t.Fatal(err)
	}
	var list []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for key, e := range v {
				if s, ok := e.(string); ok && (key == "expr" || key == "definition") {
					list = append(list, s)
				}
				walk(e)
			}
		}
	}
	walk(doc)
	return list
}

func TestTheAlertsQueryMetricsThatExist(t *testing.T) {
	v := newVocabulary(t)
	for _, r := range rules(t) {
		v.check(t, r.Alert, r.Expr)
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s says too little", r.Alert)
		}
	}
}

func TestTheAlertsHaveTheDocumentedThresholds(t *testing.T) {
	want := map[string][2]string{
		"outbox_backlog":      {"max by (job, table) (outbox_pending) > 1000", "warning"},
		"outbox_failed":       {"max by (job, table) (outbox_retrying) > 100", "warning"},
		"outbox_max_retry":    {"max by (job, table) (outbox_dead) > 10", "critical"},
		"outbox_success_rate": {"< 0.95", "warning"},
	}
	for _, r := range rules(t) {
		if w, ok := want[r.Alert]; ok {
			if !strings.HasSuffix(r.Expr, w[0]) || r.Labels["severity"] != w[1] {
				t.Errorf("%s: %s (%s), want %s (%s)", r.Alert, r.Expr, r.Labels["severity"], w[0], w[1])
			}
			delete(want, r.Alert)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestEveryAlertIsTestedToFireAndToBeSilent(t *testing.T) {
	var doc struct {
		Tests []struct {
			Alerts []struct {
				Name     string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	if err := yaml.Unmarshal([]byte(file(t, ruleTestsFile)), &doc); err != nil {
		t.Fatal(err)
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for i, test := range doc.Tests {
		for _, a := range test.Alerts {
			fires[a.Name] = fires[a.Name] || len(a.Expected) > 0
			silent[a.Name] = silent[a.Name] || i == 0 && len(a.Expected) == 0 // the first is the healthy case
		}
	}
	for _, r := range rules(t) {
		if !fires[r.Alert] || !silent[r.Alert] {
			t.Errorf("%s: fires in a test: %t; silent in the healthy case: %t", r.Alert, fires[r.Alert], silent[r.Alert])
		}
	}
}

func TestPromtoolAcceptsTheRules(t *testing.T) {
	promtool(t, "", "check", "rules", rulesFile)
}

func TestPromtoolRunsTheRulesTests(t *testing.T) {
	promtool(t, "", "test", "rules", ruleTestsFile)
}

func TestTheDashboardQueriesMetricsThatExist(t *testing.T) {
	v := newVocabulary(t)
	for _, q := range queries(t) {
		v.check(t, "dashboard", q)
	}
}

func TestTheDashboardShowsEveryMetric(t *testing.T) {
	all := strings.Join(queries(t), "\n")
	for name := range describe(metrics.New(metrics.Config{})) {
		if !regexp.MustCompile(`\b` + name + `(_bucket|_sum|_count)?\b`).MatchString(all) {
			t.Errorf("%s is not on the dashboard", name)
		}
	}
}

func TestEveryMetricAndAlertIsDocumented(t *testing.T) {
	page := file(t, docsFile)
	for name := range describe(metrics.New(metrics.Config{Aliases: true})) {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("%s is not documented", name)
		}
	}
	for _, r := range rules(t) {
		if !strings.Contains(page, "[`"+r.Alert+"`](runbook.md#"+r.Alert+")") {
			t.Errorf("the alert %s is not documented", r.Alert)
		}
	}
	named := regexp.MustCompile("`(outbox_[a-z_]+)`").FindAllStringSubmatch(page, -1)
	v := newVocabulary(t)
	for _, m := range named {
		_, isMetric := v.labels[m[1]]
		if !isMetric && !slices.ContainsFunc(rules(t), func(r rule) bool { return r.Alert == m[1] }) {
			t.Errorf("%s is documented and does not exist", m[1])
		}
	}
}

// Whoever is woken finds what it means, how to look and what to do.
func TestEveryAlertHasItsSectionOfTheRunbook(t *testing.T) {
	_, page, found := strings.Cut(file(t, runbookFile), "\n## Alerts\n")
	if !found {
		t.Fatal("the runbook has no alerts")
	}
	page, _, _ = strings.Cut(page, "\n## ")
	sections := map[string]string{}
	for _, section := range strings.Split(page, "\n### ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		sections[name] = text
	}
	for _, r := range rules(t) {
		text, ok := sections[r.Alert]
		delete(sections, r.Alert)
		if !ok {
			t.Errorf("the alert %s has no section", r.Alert)
		}
		for _, part := range []string{"**Means**", "**Look**", "**Do**", "(" + r.Labels["severity"] + ")"} {
			if !strings.Contains(text, part) {
				t.Errorf("the section of %s lacks %s", r.Alert, part)
			}
		}
		if !strings.HasSuffix(r.Annotations["runbook_url"], "docs/runbook.md#"+r.Alert) {
			t.Errorf("%s leads to %s", r.Alert, r.Annotations["runbook_url"])
		}
	}
	for name := range sections {
		t.Errorf("there is no alert %s", name)
	}
}

func TestTheDocumentedCodeIsTheCompiledExample(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```go\n(.*?)\n```").FindAllStringSubmatch(file(t, docsFile), -1)
	if len(blocks) == 0 {
		t.Fatal("there is no code")
	}
	compiled := strings.ReplaceAll(file(t, "example_test.go")+file(t, "../otelhooks/example_test.go")+file(t, "../notify/example_test.go"), "\n\t", "\n")
	for _, b := range blocks {
		if !strings.Contains(compiled, "\n"+b[1]+"\n") {
			t.Errorf("no example has this code:\n%s", b[1])
		}
	}
}

func TestTheDeploymentsUseSettingsThatExist(t *testing.T) {
	settings := file(t, "../config/settings.go")
	files, err := filepath.Glob("../deploy/*/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		for _, env := range regexp.MustCompile(`\bOUTBOX_[A-Z_]+\b`).FindAllString(file(t, name), -1) {
			if !strings.Contains(settings, `"`+strings.TrimSuffix(env, "_FILE")+`"`) {
				t.Errorf("%s: %s does not exist", name, env)
			}
		}
	}
}

// A vocabulary knows the names that a query may use.
type vocabulary struct {
	labels map[string][]string // by series name, with the suffixes of histograms
}

func newVocabulary(t *testing.T) vocabulary {
	t.Helper()
	m := busy(t, metrics.Config{Aliases: true})
	families := gather(t, m)
	v := vocabulary{labels: map[string][]string{}}
	for name, labels := range describe(m) {
		v.labels[name] = labels
		if families[name].GetType() == dto.MetricType_HISTOGRAM {
			v.labels[name+"_sum"], v.labels[name+"_count"] = labels, labels
			v.labels[name+"_bucket"] = append(slices.Clone(labels), "le")
		}
	}
	return v
}

var (
	seriesPattern = regexp.MustCompile(`\b(outbox_\w+)(?:\{([^}]*)\})?`)
	labelPattern  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	groupPattern  = regexp.MustCompile(`\b(?:by|on|without) \(([^)]*)\)`)
)

// check reports series that do not exist and labels that none of them has. It does not
// parse PromQL; promtool does, for the rules.
func (v vocabulary) check(t *testing.T, where, expr string) {
	t.Helper()
	known := []string{"job", "instance"}
	found := seriesPattern.FindAllStringSubmatch(expr, -1)
	if len(found) == 0 {
		t.Errorf("%s: no metric in %s", where, expr)
	}
	for _, s := range found {
		labels, ok := v.labels[s[1]]
		if !ok {
			t.Errorf("%s: %s does not exist", where, s[1])
		}
		known = append(known, labels...)
		for _, l := range labelPattern.FindAllStringSubmatch(s[2], -1) {
			if l[1] != "job" && l[1] != "instance" && !slices.Contains(labels, l[1]) {
				t.Errorf("%s: %s has no label %s", where, s[1], l[1])
			}
		}
	}
	for _, g := range groupPattern.FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(g[1], ",") {
			if l = strings.TrimSpace(l); !slices.Contains(known, l) {
				t.Errorf("%s: nothing has the label %s in %s", where, l, expr)
			}
		}
	}
}
