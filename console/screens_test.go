package console_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/console"
	"github.com/go-outbox/outbox/store/memstore"
)

func TestTheBannerSaysWhatIsWrongAndWhatToOpen(t *testing.T) {
	s := newShop(t)
	s.get("victor", "/").want(t, http.StatusOK).says(t, "No relay is running. Nothing waits yet.", `href="/relays"`)

	s = newShop(t)
	s.add(outbox.Message{Topic: "shop.order.placed.v1"})
	s.get("victor", "/").says(t, `banner bad`, "No relay is running: 1 messages wait and nobody delivers them.")

	s = newShop(t)
	s.add(outbox.Message{Topic: "shop.order.placed.v1"})
	s.kill("permanent", "422 line 14")
	if _, err := s.store.Acquire(t.Context(), outbox.LeaseRequest{Instance: "relay-1", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	s.get("victor", "/").says(t, `banner warn`, "1 messages are dead", `href="/dead?table=shop_outbox"`, "# line #")

	s = newShop(t)
	if _, err := s.store.Acquire(t.Context(), outbox.LeaseRequest{Instance: "relay-1", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	s.get("victor", "/").says(t, `banner ok`, "Everything is being delivered.")
	note := outbox.RelayNote{Circuits: []outbox.CircuitNote{{Route: "warehouse", Since: time.Now(), Error: "refused"}}}
	if _, err := s.store.Heartbeat(t.Context(), outbox.Member{Instance: "relay-1", TTL: time.Minute, Note: note}); err != nil {
		t.Fatal(err)
	}
	s.post("olga", "/routes", url.Values{"verb": {"pause"}, "route": {"billing"}, "reason": {"INC-1"}}).want(t, http.StatusSeeOther)
	s.get("victor", "/").says(t, `banner bad`, "Destination warehouse is down since", "Route billing is paused by olga", "Open Routes")
	s.get("victor", "/routes").says(t, "circuit open", "refused", "INC-1")
}

func TestMessagesAreFilteredByTheAddressAndPagedByKeys(t *testing.T) {
	s := newShop(t)
	for i := range 7 {
		s.add(outbox.Message{Topic: "shop.order.placed.v1", Key: fmt.Sprintf("order-%d", i)})
	}
	s.add(outbox.Message{Topic: "billing.invoice.issued.v1", Key: "invoice-1"})
	r := s.get("victor", "/messages?topic=billing.**&status=pending").want(t, http.StatusOK).says(t, "invoice-1", `value="billing.**"`)
	if strings.Contains(r.body, "order-3") {
		t.Error("the filter does not filter")
	}
	next := regexp.MustCompile(`href="([^"]+)" rel="next"`)
	path, seen := "/messages?limit=3", map[string]bool{}
	for range 3 {
		r := s.get("victor", path).want(t, http.StatusOK)
		for _, key := range regexp.MustCompile(`(order|invoice)-\d`).FindAllString(r.body, -1) {
			seen[key] = true
		}
		m := next.FindStringSubmatch(r.body)
		if m == nil {
			break
		}
		path = strings.ReplaceAll(m[1], "&amp;", "&")
	}
	if len(seen) != 8 {
		t.Errorf("paging found %v", seen)
	}
	id := s.add(outbox.Message{Topic: "shop.order.placed.v1"})
	if to := s.get("victor", "/messages?id="+id.String()).want(t, http.StatusSeeOther).Header.Get("Location"); to != "/messages/"+id.String() {
		t.Errorf("an id opens %s", to)
	}
}

func TestAMessageExplainsItselfAndCanBeReplayed(t *testing.T) {
	s := newShop(t)
	id := s.add(outbox.Message{Topic: "billing.invoice.issued.v1", Key: "invoice-1", TenantID: "acme", Headers: map[string]string{"source": "api"}})
	s.kill("permanent", "422 total must be a number")
	path := "/messages/" + id.String()
	s.get("olga", path).want(t, http.StatusOK).says(t, "Why is it here?", "422 total must be a number", "Given up: permanent", "source",
		"outbox-event-id", "outbox replay "+id.String()+" --table shop_outbox", "Hidden: your role does not allow", path+"/replay")
	s.post("olga", path+"/replay", nil).want(t, http.StatusBadRequest).says(t, "reason")
	to := s.post("olga", path+"/replay", reason).want(t, http.StatusSeeOther).Header.Get("Location")
	s.get("olga", to).want(t, http.StatusOK).says(t, "Replayed. The relay sends it again.", "because", "olga")
	s.post("olga", path+"/reschedule", url.Values{"at": {"2h"}, "reason": {"later"}}).want(t, http.StatusSeeOther)
	s.get("victor", path).says(t, "Scheduled")
	s.post("olga", path+"/discard", reason).want(t, http.StatusSeeOther)
	s.get("victor", path).says(t, "Discarded by a person")
	s.post("olga", path+"/explode", reason).want(t, http.StatusNotFound)
	s.get("olga", "/messages/"+uuid.NewString()).want(t, http.StatusNotFound)
}

// waitFor asks until the page says so.
func (s *shop) waitFor(as, path, part string) response {
	s.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		r := s.get(as, path)
		if strings.Contains(r.body, part) || time.Now().After(deadline) {
			return r.says(s.t, part)
		}
	}
}

func TestAReplayIsPreviewedConfirmedDrivenAndRecorded(t *testing.T) {
	s := newShop(t)
	for i := range 1234 {
		s.add(outbox.Message{Topic: "billing.invoice.issued.v1", Key: fmt.Sprintf("invoice-%d", i)})
	}
	for s.stats().Pending > 0 {
		s.kill("permanent", "422 line 14")
	}
	s.get("olga", "/dead").want(t, http.StatusOK).says(t, "1,234", "# line #", "/replay?topic=billing.invoice.issued.v1")
	page := s.get("olga", "/replay?topic=billing.**").want(t, http.StatusOK).says(t, "1,234", "messages would be sent again", "Type 1,234 to confirm", "as fast as it goes")
	once := regexp.MustCompile(`name="once" value="([^"]+)"`).FindStringSubmatch(page.body)[1]

	form := url.Values{"topic": {"billing.**"}, "expect": {"1234"}, "count": {"12"}, "rate": {"0"}, "reason": {"INC-7"}, "once": {once}}
	s.post("olga", "/replay", form).want(t, http.StatusUnprocessableEntity).says(t, "the number you typed is not the count")
	form.Set("count", "1,234")
	form.Set("reason", " ")
	s.post("olga", "/replay", form).want(t, http.StatusUnprocessableEntity).says(t, "say why")
	form.Set("reason", "INC-7")
	form.Set("expect", "600")
	form.Set("count", "600")
	s.post("olga", "/replay", form).want(t, http.StatusConflict).says(t, "the count has changed")
	s.untouched()

	form.Set("expect", "1234")
	form.Set("count", "1234")
	job := s.post("olga", "/replay", form).want(t, http.StatusSeeOther).Header.Get("Location")
	if again := s.post("olga", "/replay", form).want(t, http.StatusSeeOther).Header.Get("Location"); again != job {
		t.Errorf("sending the form twice made two jobs: %s, %s", job, again)
	}
	s.waitFor("olga", job, "Done in").says(t, "1,234", "INC-7", "start_job", "olga")
	s.get("victor", "/replay").says(t, job)
	s.get("victor", "/audit").says(t, "INC-7", "start_job")
	if stats := s.stats(); stats.Dead != 0 || stats.Pending != 1234 {
		t.Errorf("after the replay: %+v", stats)
	}
}

func (s *shop) stats() outbox.Stats {
	stats, err := s.store.Stats(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return stats
}

func TestABulkChangeNeedsAFilterAndDiscardingManyAnAdmin(t *testing.T) {
	s := newShop(t)
	s.add(outbox.Message{Topic: "shop.order.placed.v1"})
	s.kill("permanent", "no")
	s.post("olga", "/replay", url.Values{"expect": {"1"}, "count": {"1"}, "reason": {"x"}}).want(t, http.StatusBadRequest)
	s.postJSON("olga", "/api/jobs", `{"verb":"replay","expect":1,"reason":"x"}`).want(t, http.StatusBadRequest)
	s.postJSON("olga", "/api/jobs/preview", `{"verb":"replay"}`).want(t, http.StatusBadRequest)
	discard := url.Values{"verb": {"discard"}, "topic": {"**"}, "expect": {"1"}, "count": {"1"}, "reason": {"x"}}
	s.post("olga", "/replay", discard).want(t, http.StatusForbidden)
	s.postJSON("ada", "/api/jobs", `{"verb":"purge","expect":1,"reason":"x","filter":{"topic":"**"}}`).want(t, http.StatusBadRequest)
	s.untouched()
	s.waitFor("ada", s.post("ada", "/replay", discard).want(t, http.StatusSeeOther).Header.Get("Location"), "Done in")
	if s.stats().Discarded != 1 {
		t.Error("nothing was discarded")
	}
}

func TestAJobIsPausedResumedAndCancelledAndOutlivesTheConsole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		for range 500 {
			s.add(outbox.Message{Topic: "shop.order.placed.v1"})
		}
		s.kill("permanent", "no")
		job := s.post("olga", "/replay", url.Values{"topic": {"**"}, "expect": {"500"}, "count": {"500"}, "rate": {"50"}, "reason": {"x"}}).
			want(t, http.StatusSeeOther).Header.Get("Location")
		pass(3500 * time.Millisecond)
		s.post("olga", job+"/pause", nil).want(t, http.StatusSeeOther)
		pass(2 * time.Second)
		before := s.stats().Dead
		if before == 0 || before == 500 {
			t.Fatalf("%d are dead", before)
		}
		pass(time.Minute)
		if s.stats().Dead != before {
			t.Error("a paused job goes on")
		}
		s.get("olga", job).says(t, "Paused. What was changed stays.", job+"/resume")
		s.post("olga", job+"/resume", nil).want(t, http.StatusSeeOther)
		pass(3 * time.Second)
		if s.stats().Dead >= before {
			t.Error("a resumed job stands still")
		}
		s.post("olga", job+"/cancel", nil).want(t, http.StatusSeeOther)
		pass(3 * time.Second)
		s.get("olga", job).says(t, "Cancelled. What was changed stays.", "cancel_job")

		second := s.post("olga", "/replay", url.Values{"topic": {"**"}, "expect": {fmt.Sprint(s.stats().Dead)}, "count": {fmt.Sprint(s.stats().Dead)}, "rate": {"10"}, "reason": {"x"}}).
			want(t, http.StatusSeeOther).Header.Get("Location")
		pass(2 * time.Second)
		other := newShopOver(t, s)
		s.console.Close() // waits for its driver
		s.console = nil
		left := s.stats().Dead
		pass(time.Minute)
		if s.stats().Dead != left {
			t.Error("a closed console goes on")
		}
		other.get("olga", second).says(t, "The process that drove this job is gone")
		other.post("olga", second+"/resume", nil).want(t, http.StatusSeeOther)
		pass(2 * time.Minute)
		other.get("olga", second).says(t, "Done in")
		if s.stats().Dead != 0 {
			t.Errorf("%d are dead", s.stats().Dead)
		}
	})
}

// newShopOver is a second console over the same store.
func newShopOver(t *testing.T, s *shop) *shop {
	t.Helper()
	other := &shop{t: t, store: s.store, log: s.log, tokens: map[string]string{}}
	token, secret := console.NewToken()
	other.tokens["olga"] = token
	c, err := console.New(console.Config{
		Stores: []console.Source{{Name: "shop_outbox", Inspector: s.store, Operator: s.store}}, Hosts: []string{"console.test"},
		Auth: console.Auth{Users: []console.User{{Name: "olga", Role: console.RoleOperator, Secret: secret}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	other.console = c
	t.Cleanup(c.Close)
	return other
}

func TestKeysRoutesAndLeasesCanBeOperated(t *testing.T) {
	s := newShop(t)
	s.add(outbox.Message{Topic: "shop.order.placed.v1", Key: "order-7"})
	s.kill("permanent", "no")
	s.add(outbox.Message{Topic: "shop.order.paid.v1", Key: "order-7"})
	s.get("olga", "/keys").want(t, http.StatusOK).says(t, "order-7", "waiting behind", "Act on this key")
	s.post("olga", "/keys", url.Values{"verb": {"skip_head"}, "key_enc": {"order-7"}, "reason": {"x"}}).want(t, http.StatusSeeOther)
	s.get("olga", "/keys").says(t, "No key is held.")
	s.post("olga", "/keys", url.Values{"verb": {"explode"}, "key": {"order-7"}, "reason": {"x"}}).want(t, http.StatusBadRequest)

	s.post("olga", "/routes", url.Values{"verb": {"pause"}, "reason": {"stocktaking"}}).want(t, http.StatusSeeOther)
	s.get("olga", "/routes").says(t, "stocktaking", "Resume")
	s.post("olga", "/routes", url.Values{"verb": {"resume"}, "reason": {"done"}}).want(t, http.StatusSeeOther)

	if _, err := s.store.Acquire(t.Context(), outbox.LeaseRequest{Instance: "relay-9", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	s.get("ada", "/relays").says(t, "relay-9", "held", "End the lease")
	s.post("olga", "/relays", url.Values{"shard": {"0"}, "reason": {"stuck"}}).want(t, http.StatusForbidden)
	s.postJSON("olga", "/api/actions", `{"verb":"release_lease","shard":0,"reason":"stuck"}`).want(t, http.StatusForbidden)
	s.post("ada", "/relays", url.Values{"shard": {"0"}, "reason": {"stuck"}}).want(t, http.StatusSeeOther)
	if s.stats().Leases[0].Held {
		t.Error("the lease is still held")
	}
	s.get("ada", "/audit?verb=release_lease").says(t, "stuck")
}

func TestTheAPITriggersAndActs(t *testing.T) {
	s := newShop(t)
	id := s.add(outbox.Message{Topic: "shop.order.placed.v1", Key: "k"})
	s.kill("permanent", "no")
	s.postJSON("olga", "/api/outbox/trigger/process", `{}`).want(t, http.StatusOK).says(t, `"table":"shop_outbox"`)
	s.postJSON("olga", "/api/outbox/trigger/process", ``).want(t, http.StatusOK)
	action := `{"verb":"replay","reason":"x","event_id":"` + id.String() + `"`
	s.postJSON("olga", "/api/actions", action+`,"preview":true}`).want(t, http.StatusOK).says(t, `"preview":true`, `"before":"dead"`)
	if s.stats().Dead != 1 {
		t.Error("a preview changes something")
	}
	s.get("victor", "/api/messages/"+id.String()+"/explain").want(t, http.StatusOK).says(t, `"cause":"dead"`)
	s.get("victor", "/api/messages/"+id.String()+"/attempts").want(t, http.StatusOK).says(t, `"route":"billing"`)
	s.get("victor", "/api/groups").want(t, http.StatusOK).says(t, `"count":1`)
	s.get("victor", "/api/keys").want(t, http.StatusOK).says(t, `"key":"k"`)
	s.get("victor", "/api/tables").want(t, http.StatusOK).says(t, `"dead":1`, `"problems":[{`)

	start := `{"verb":"replay","expect":1,"reason":"x","filter":{"topic":"**"}}`
	r := s.postJSON("olga", "/api/jobs", start, "Idempotency-Key", "one").want(t, http.StatusCreated)
	var job struct{ ID uuid.UUID }
	if err := json.Unmarshal([]byte(r.body), &job); err != nil {
		t.Fatal(err)
	}
	s.postJSON("olga", "/api/jobs", start, "Idempotency-Key", "one").want(t, http.StatusCreated).says(t, job.ID.String())
	s.waitFor("victor", "/api/jobs/"+job.ID.String(), `"state":"done"`)
	s.get("victor", "/api/jobs").want(t, http.StatusOK).says(t, job.ID.String())
	s.postJSON("olga", "/api/jobs/"+job.ID.String()+"/state", `{"state":"exploded"}`).want(t, http.StatusBadRequest)
	s.get("victor", "/api/audit").want(t, http.StatusOK).says(t, `"verb":"start_job"`, `"actor":"olga"`)
	s.get("victor", "/api/nothing").want(t, http.StatusNotFound).says(t, `"error":"path"`)
	s.postJSON("olga", "/api/actions", `{"table":"other","verb":"trigger","reason":"x"}`).want(t, http.StatusNotFound)
}

func TestTheConsoleMountsUnderAnyPath(t *testing.T) {
	s := newShop(t, func(c *console.Config) { c.Path = "/ops/outbox/" })
	id := s.add(outbox.Message{Topic: "shop.order.placed.v1"})
	s.get("ada", "/ops/outbox").want(t, http.StatusPermanentRedirect)
	s.get("ada", "/messages").want(t, http.StatusNotFound)
	r := s.get("ada", "/ops/outbox/").want(t, http.StatusOK)
	for _, link := range regexp.MustCompile(`(?:href|src|action)="([^"]+)"`).FindAllStringSubmatch(r.body, -1) {
		if !strings.HasPrefix(link[1], "/ops/outbox/") && !strings.HasPrefix(link[1], "#") {
			t.Errorf("a link leaves the path: %s", link[1])
		}
	}
	if to := s.get("", "/ops/outbox/dead").want(t, http.StatusSeeOther).Header.Get("Location"); to != "/ops/outbox/login?next=%2Fdead" {
		t.Errorf("the login is at %s", to)
	}
	if to := s.post("", "/ops/outbox/login", url.Values{"secret": {s.tokens["ada"]}, "next": {"/dead"}}).Header.Get("Location"); to != "/ops/outbox/dead" {
		t.Errorf("a login goes to %s", to)
	}
	s.get("ada", "/ops/outbox/api/messages/"+id.String()).want(t, http.StatusOK)
}

func TestPreferencesAreKeptInCookies(t *testing.T) {
	s := newShop(t)
	s.get("ada", "/dead", "Accept-Language", "zh-CN,zh;q=0.9").says(t, "没有死信", `lang="zh-CN"`)
	r := s.post("ada", "/prefs", url.Values{"lang": {"zh"}, "theme": {"dark"}, "zone": {"Asia/Shanghai"}, "next": {"/settings"}}).want(t, http.StatusSeeOther)
	var cookies []string
	for _, c := range r.Cookies() {
		cookies = append(cookies, c.Name+"="+c.Value)
	}
	s.get("ada", "/settings", "Cookie", strings.Join(cookies, "; ")).want(t, http.StatusOK).says(t, `data-theme="dark"`, "设置", "<option selected>Asia/Shanghai")
	for _, zone := range []string{"../../etc/passwd", "Local", "Nowhere/None", strings.Repeat("A", 100), "UTC\x00"} {
		if r := s.post("ada", "/prefs", url.Values{"zone": {zone}}); len(r.Cookies()) > 0 {
			t.Errorf("the zone %q is taken", zone)
		}
	}
	s.get("ada", "/", "Cookie", "outbox_lang=xx; outbox_theme=<b>; outbox_zone=../x").want(t, http.StatusOK)
}

func TestSeveralTablesKeepApart(t *testing.T) {
	hr, err := memstore.New(memstore.Config{Table: "hr_outbox"})
	if err != nil {
		t.Fatal(err)
	}
	s := newShop(t, func(c *console.Config) {
		c.Stores = append(c.Stores, console.Source{Name: "hr_outbox", Inspector: hr, Operator: hr})
	})
	s.add(outbox.Message{Topic: "shop.order.placed.v1"})
	s.get("ada", "/").says(t, "shop_outbox", "hr_outbox")
	s.get("ada", "/messages?table=shop_outbox").says(t, "shop.order.placed.v1", "<option selected>shop_outbox")
	if r := s.get("ada", "/messages?table=hr_outbox"); strings.Contains(r.body, "shop.order.placed.v1") {
		t.Error("a table shows the messages of another")
	}
	s.post("ada", "/trigger", url.Values{"table": {"hr_outbox"}}).want(t, http.StatusSeeOther)
	if entries, _ := hr.Audit(t.Context(), outbox.AuditFilter{}); len(entries) != 1 {
		t.Error("the change went elsewhere")
	}
	s.untouched()
}

func TestEventsTickUntilTheConsoleCloses(t *testing.T) {
	s := newShop(t, func(c *console.Config) { c.Hosts = []string{"*"}; c.Every = 10 * time.Millisecond })
	server := httptest.NewServer(s.console)
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.tokens["victor"])
	answer, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for ticks := 0; ticks < 3; {
		if !lines.Scan() {
			t.Fatal("the stream ends")
		}
		if lines.Text() == "event: tick" {
			ticks++
		}
	}
	other := s.console
	s.console = nil
	other.Close()
	for lines.Scan() { // ends, because the console has
	}
}

// TestEveryTextIsTranslated finds the texts in the sources.
func TestEveryTextIsTranslated(t *testing.T) {
	var chinese map[string]string
	file, err := os.ReadFile("locales/zh.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(file, &chinese); err != nil {
		t.Fatal(err)
	}
	patterns := []*regexp.Regexp{
		regexp.MustCompile(`\.T "([^"]+)"`), regexp.MustCompile(`\bv\.T\("((?:[^"\\]|\\.)+)"`),
		regexp.MustCompile(`\.N [^"]*"([^"]+)" "[^"]+"`), regexp.MustCompile(`\.N [^"]*"[^"]+" "([^"]+)"`),
		regexp.MustCompile(`\(list "[a-z]+" "[^"]+" "([^"]+)"\)`), regexp.MustCompile(`refused\([^,]+, "[a-z_]+", "([^"]+)"\)`),
		regexp.MustCompile(`outbox\.Status\w+: +"([^"]+)"`), regexp.MustCompile(`\badd\("([A-Z]\w+)"`), regexp.MustCompile(`(?:unit|rest)\([^"]*"( \w+)"\)`),
	}
	found := 0
	for _, glob := range []string{"*.go", "templates/*.html"} {
		names, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range patterns {
				for _, m := range p.FindAllStringSubmatch(string(source), -1) {
					found++
					if chinese[m[1]] == "" {
						t.Errorf("%s: %q has no translation", name, m[1])
					}
					if strings.Count(chinese[m[1]], "%") != strings.Count(m[1], "%") {
						t.Errorf("%q and %q take different values", m[1], chinese[m[1]])
					}
				}
			}
		}
	}
	if found < 200 {
		t.Errorf("only %d texts were found: the patterns are out of date", found)
	}
}

func TestUsersFilesAreReadAndMistakesNameTheLine(t *testing.T) {
	_, secret := console.NewToken()
	users, err := console.ParseUsers(strings.NewReader("# people\n\nkim admin " + secret + "\ntess operator " + secret + " acme,globex\n"))
	if err != nil || len(users) != 2 || users[1].Tenants[1] != "globex" {
		t.Fatalf("%+v, %v", users, err)
	}
	if again, err := console.ParseUsers(strings.NewReader(users[1].String())); err != nil || again[0].String() != users[1].String() {
		t.Errorf("%+v, %v", again, err)
	}
	for _, bad := range []string{"kim admin", "kim god " + secret, "kim admin hunter2", "kim admin sha256:abcd", "kim admin pbkdf2-sha256:1:AAAA:AAAA"} {
		_, err := console.ParseUsers(strings.NewReader("\n" + bad))
		if err == nil || !strings.Contains(err.Error(), "line 2") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
