package browsertest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/console"
	"github.com/go-outbox/outbox/internal/browsertest"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/store/memstore"
	"github.com/go-outbox/outbox/store/pgstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds one test with its browser.
const patience = 2 * time.Minute

// A walk is a person with a browser in front of a console.
type walk struct {
	*browsertest.Browser
	t     *testing.T
	scene *browsertest.Scene
	url   string
	token string
}

func inMemory(t *testing.T) browsertest.Table {
	t.Helper()
	s, err := memstore.New(memstore.Config{Table: "shop_outbox"})
	if err != nil {
		t.Fatal(err)
	}
	return browsertest.Table{Store: s, Enqueue: func(ctx context.Context, messages []outbox.Message) error {
		tx := s.Begin()
		if _, err := s.EnqueueMany(ctx, tx, messages); err != nil {
			return err
		}
		return tx.Commit()
	}}
}

func inPostgres(t *testing.T) browsertest.Table {
	t.Helper()
	pool := testenv.Postgres(t).Pool(t)
	s, err := pgstore.New(pool, pgstore.Config{Table: "shop_outbox"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return browsertest.Table{Store: s, Enqueue: func(ctx context.Context, messages []outbox.Message) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := s.EnqueueMany(ctx, tx, messages)
			return err
		})
	}}
}

func newWalk(t *testing.T, table func(*testing.T) browsertest.Table) *walk {
	t.Helper()
	path := testenv.Chromium(t)
	w := &walk{t: t}
	scene, err := browsertest.Start(t.Context(), table(t))
	if scene != nil {
		t.Cleanup(scene.Stop)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.scene = scene
	user := console.User{Name: "kim", Role: console.RoleAdmin}
	w.token, user.Secret = console.NewToken()
	c, err := console.New(console.Config{
		Stores: []console.Source{{Name: "shop_outbox", Inspector: scene.Table.Store, Operator: scene.Table.Store}},
		Auth:   console.Auth{Users: []console.User{user}}, Every: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	t.Cleanup(c.Close)
	w.url = server.URL

	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	t.Cleanup(cancel)
	if w.Browser, err = browsertest.Open(ctx, path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	w.do(browsertest.Look(1280, 900, "light"))
	return w
}

// login uses the address that the command prints.
func (w *walk) login() {
	w.t.Helper()
	w.do(chromedp.Navigate(w.url + "/login#token=" + w.token))
	w.await(`document.body.dataset.screen === "overview"`)
}

func (w *walk) do(steps ...browsertest.Step) {
	w.t.Helper()
	if err := w.Do(steps...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *walk) open(path string) {
	w.t.Helper()
	w.do(chromedp.Navigate(w.url + path))
	w.fine(path)
}

// fine fails the test when the browser complains.
func (w *walk) fine(where string) {
	w.t.Helper()
	if problems := w.Problems(); len(problems) > 0 {
		w.t.Errorf("%s: the browser complains: %q", where, problems)
	}
}

// await waits until an expression is true in the page.
func (w *walk) await(expression string) {
	w.t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for {
		ok, err := chromedp.Run(w.Tab(), chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && ok {
			return
		}
		if time.Now().After(deadline) {
			body, _ := chromedp.Run(w.Tab(), chromedp.Evaluate[string]("document.body.innerText"))
			w.t.Fatalf("it never becomes true: %s (%v)\n%s", expression, err, body)
		}
	}
}

func says(text string) string {
	quoted, _ := json.Marshal(text) // a string
	return fmt.Sprintf("document.body.innerText.includes(%s)", quoted)
}

func (w *walk) eval(expression string) string {
	w.t.Helper()
	text, err := chromedp.Run(w.Tab(), chromedp.Evaluate[string](expression))
	if err != nil {
		w.t.Fatalf("%s: %v", expression, err)
	}
	return text
}

// click clicks. A live page may replace what was just found: then it is looked for again.
func (w *walk) click(selector string) {
	w.t.Helper()
	var err error
	for range 10 {
		if err = w.Do(chromedp.Click(chromedp.CSS(selector))); err == nil || !strings.Contains(err.Error(), "node") {
			break
		}
	}
	if err != nil {
		w.t.Fatalf("click %s: %v", selector, err)
	}
}

func (w *walk) press(keys string) {
	w.t.Helper()
	w.await(`document.body.dataset.ready`)
	for _, key := range strings.Split(keys, "") {
		w.do(chromedp.KeyEvent(key))
	}
}

var screens = []string{
	"/", "/messages", "/messages?status=dead&limit=5", "/messages/" + browsertest.DeadInvoice.String(), "/dead", "/replay",
	"/replay?topic=billing.**", "/keys", "/routes", "/relays", "/audit", "/settings",
}

func TestEveryScreenIsFineInABrowser(t *testing.T) {
	w := newWalk(t, inMemory)
	axe := testenv.Axe(t)
	w.login()
	w.fine("login")
	for _, scheme := range []string{"light", "dark"} {
		w.do(browsertest.Look(1280, 900, scheme))
		for _, path := range append(screens, "/nothing-here") {
			w.do(chromedp.Navigate(w.url + path))
			if path != "/nothing-here" {
				w.fine(path)
			}
			w.accessible(axe, scheme+" "+path)
		}
		w.Problems() // the page that is not there
	}
	w.do(browsertest.Look(375, 800, "light"))
	for _, path := range screens {
		w.open(path)
		if wide := w.eval(`String(Math.max(0, document.documentElement.scrollWidth - innerWidth))`); wide != "0" {
			t.Errorf("%s is %s pixels too wide for a telephone", path, wide)
		}
	}
}

// accessible fails the test for what axe calls serious or critical.
func (w *walk) accessible(axe, where string) {
	w.t.Helper()
	if _, err := chromedp.Run(w.Tab(), chromedp.Evaluate[string](axe+"; 'loaded'")); err != nil {
		w.t.Fatal(err)
	}
	found, err := chromedp.Run(w.Tab(), chromedp.Evaluate[[]string](`
		axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations
			.filter((v) => v.impact === "serious" || v.impact === "critical")
			.map((v) => v.id + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + " " + (n.any[0]?.message ?? "")).join(" | ")))`,
		chromedp.EvalAwaitPromise))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, violation := range found {
		w.t.Errorf("%s: %s", where, violation)
	}
}

func TestTheConsoleSpeaksChinese(t *testing.T) {
	w := newWalk(t, inMemory)
	w.login()
	w.click(`button[name=lang][value=zh]`)
	w.await(says("死信"))
	for _, path := range screens {
		w.open(path)
		if lang := w.eval("document.documentElement.lang"); lang != "zh-CN" {
			t.Errorf("%s is in %s", path, lang)
		}
	}
}

func TestKeysMoveThroughTheConsole(t *testing.T) {
	w := newWalk(t, inMemory)
	w.login()
	w.press("gm")
	w.await(`document.body.dataset.screen === "messages"`)
	w.press("/")
	w.await(`document.activeElement.name === "topic"`)
	w.eval(`document.activeElement.value = ""`) // the protocol types the slash in any case
	w.do(chromedp.KeyEvent("billing.**\r"))
	w.await(`location.search.includes("topic=billing")`)
	w.await(`document.querySelectorAll("tbody tr").length > 10`)
	w.press("jjk")
	w.await(`document.querySelectorAll("tbody tr")[0].classList.contains("selected")`)
	w.do(chromedp.KeyEvent("\r"))
	w.await(says("Why is it here?"))
	w.press("?")
	w.await(`document.getElementById("help").open`)
	w.do(chromedp.KeyEvent("\x1b"))
	w.await(`!document.getElementById("help").open`)
	w.press("go")
	w.await(`document.body.dataset.screen === "overview"`)
	w.fine("keys")
}

func TestTheThemeStaysChosen(t *testing.T) {
	w := newWalk(t, inMemory)
	w.login()
	background := `getComputedStyle(document.documentElement).backgroundColor`
	light := w.eval(background)
	w.click(`button[name=theme]`)
	w.await(`document.documentElement.dataset.theme === "dark"`)
	if dark := w.eval(background); dark == light {
		t.Errorf("dark looks like light: %s", dark)
	}
	w.open("/dead")
	w.await(`document.documentElement.dataset.theme === "dark"`)
}

func TestTheOverviewLivesByItself(t *testing.T) {
	w := newWalk(t, inMemory)
	w.login()
	w.await(says("Destination warehouse is down"))
	w.await(says(fmt.Sprintf("%d messages are dead", browsertest.Dead)))
	if err := w.scene.Trade(t.Context(), 12, 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	w.await(says(fmt.Sprintf("%d messages are dead", browsertest.Dead+1))) // nobody has reloaded
	w.fine("overview")
}

func TestFromAnAlarmToAReplayAndItsRecord(t *testing.T) {
	for name, table := range map[string]func(*testing.T) browsertest.Table{"memory": inMemory, "postgres": inPostgres} {
		t.Run(name, func(t *testing.T) { replay(newWalk(t, table)) })
	}
}

// replay is the way of a person on call, from "invoices are not arriving" to the record.
func replay(w *walk) {
	w.login()
	w.await(says("Destination warehouse is down"))
	w.click(`.rows a[href*="billing.invoice.issued"]`)
	w.await(says("total must be a number"))
	w.click(`a[href*="/messages/"]`)
	w.await(says("Why is it here?"))
	w.await(says("will never accept it"))
	w.click(`form.masked button`)
	w.await(says("kim@example.com"))

	w.scene.Mended.Store(true) // somebody repairs it
	w.open("/dead")
	w.click(`.group a.button.primary`)
	w.await(says("messages would be sent again"))
	w.await(`document.body.dataset.ready && document.querySelector(".confirm button").disabled`)
	w.do(chromedp.SendKeys(chromedp.CSS(`.confirm input[name=reason]`), "INC-2041: billing takes them again"))
	w.do(chromedp.SendKeys(chromedp.CSS(`.confirm input[name=count]`), fmt.Sprint(browsertest.Invoices)))
	w.await(`!document.querySelector(".confirm button").disabled`)
	w.do(chromedp.SetValue(chromedp.CSS(`.confirm select[name=rate]`), "10"))
	w.click(`.confirm button`)
	w.await(`location.pathname.startsWith("/jobs/")`)
	w.click(`form[action*="/pause"] button`)
	w.await(says("Paused. What was changed stays."))
	w.click(`form[action*="/resume"] button`)
	w.await(says("Done in"))
	w.await(says("INC-2041: billing takes them again"))
	w.fine("job")

	w.open("/audit")
	for _, part := range []string{"start_job", "pause_job", "resume_job", "read_payload", "INC-2041"} {
		w.await(says(part))
	}
	w.open("/keys")
	w.open("/routes")
	w.open("/relays")
	w.await(says("relay-eu-1-7d9c"))
	w.delivered()
}

// delivered waits until the destination has all invoices.
func (w *walk) delivered() {
	w.t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for {
		list, err := w.scene.Table.Store.List(w.t.Context(), outbox.Filter{Status: outbox.StatusPublished, Topic: "billing.invoice.issued.v1", Limit: 200})
		if err != nil {
			w.t.Fatal(err)
		}
		if len(list.Records) == browsertest.Invoices {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%d of %d invoices were delivered", len(list.Records), browsertest.Invoices)
		}
	}
}
