package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/go-outbox/outbox/config"
	"github.com/go-outbox/outbox/console"
)

// consoleOptions are the flags of the console.
type consoleOptions struct {
	listen      string
	path        string
	hosts       []string
	users       string
	noAuth      bool
	behindProxy bool
	proxyHeader string
	proxyFrom   []string
	proxyRole   string
	cert, key   string
	readOnly    bool
	payloadRole string
}

// defaultConsoleAddr is where the console listens unless it is told otherwise.
const defaultConsoleAddr = "127.0.0.1:8025"

func (o *consoleOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.listen, "listen", defaultConsoleAddr, "address; others than loopback need TLS or --behind-proxy, and --hosts")
	flags.StringVar(&o.path, "path", "/", "path of the console")
	flags.StringSliceVar(&o.hosts, "hosts", nil, "host names that browsers use (default: loopback only)")
	flags.StringVar(&o.users, "users", "", "file of users with hashed tokens and passwords; made with one token if it does not exist")
	flags.BoolVar(&o.noAuth, "no-auth", false, "ask nobody who they are; on loopback only")
	flags.BoolVar(&o.behindProxy, "behind-proxy", false, "a proxy in front terminates TLS")
	flags.StringVar(&o.proxyHeader, "proxy-header", "", "trust this header of the proxy for the name of the user")
	flags.StringSliceVar(&o.proxyFrom, "proxy-from", nil, "addresses of the proxy, such as 10.0.0.0/8")
	flags.StringVar(&o.proxyRole, "proxy-role", "", "role of users of the proxy that --users does not list (default: none)")
	flags.StringVar(&o.cert, "tls-cert", "", "certificate file")
	flags.StringVar(&o.key, "tls-key", "", "key file")
	flags.BoolVar(&o.readOnly, "read-only", false, "refuse every change")
	flags.StringVar(&o.payloadRole, "payload-role", string(console.RoleAdmin), "least role that may see payloads: viewer, operator or admin")
}

func (a *app) consoleCommand() *cobra.Command {
	var o consoleOptions
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve the web console",
		Long: "Serve the web console until stopped. It listens on loopback. Without --users it makes a token for this run and\n" +
			"prints it once; only its hash is kept.",
		Example: "  outbox console --dsn postgres://… --tables shop_outbox,hr_outbox\n" +
			"  outbox console --listen 0.0.0.0:8025 --hosts outbox.example.com --tls-cert c.pem --tls-key k.pem --users users.txt",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.loadTables(cmd)
			if err != nil {
				return err
			}
			return a.serveConsole(cmd.Context(), cfg, o)
		},
	}
	o.addFlags(cmd.Flags())
	cmd.AddCommand(a.consoleUserCommand())
	return cmd
}

// serveConsole is `outbox console`.
func (a *app) serveConsole(ctx context.Context, cfg *config.Config, o consoleOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	log := a.logger(cfg.Log)
	db, sources, err := openConsole(ctx, cfg)
	if err != nil {
		return err
	}
	defer db.close()
	w, err := a.newWebConsole(o, sources, log)
	if err != nil {
		return err
	}
	if err := w.listen(ctx, log); err != nil {
		return err
	}
	defer w.close(context.WithoutCancel(ctx))
	<-ctx.Done()
	return nil
}

// check refuses what would let strangers in. Its errors are usage errors.
func (o *consoleOptions) check() error {
	host, _, err := net.SplitHostPort(o.listen)
	switch {
	case err != nil:
		return usagef("--listen %s: want HOST:PORT", o.listen)
	case (o.cert == "") != (o.key == ""):
		return usagef("--tls-cert and --tls-key belong together")
	case (o.proxyHeader == "") != (len(o.proxyFrom) == 0):
		return usagef("--proxy-header and --proxy-from belong together: whose header is trusted?")
	case o.noAuth && (o.users != "" || o.proxyHeader != ""):
		return usagef("--no-auth contradicts --users and --proxy-header")
	}
	if isLoopback(host) && !o.behindProxy {
		return nil
	}
	switch {
	case o.noAuth:
		return usagef("--listen %s can be reached by others: --no-auth is for loopback only", o.listen)
	case o.cert == "" && !o.behindProxy:
		return usagef("--listen %s can be reached by others: give --tls-cert and --tls-key, or --behind-proxy if a proxy terminates TLS", o.listen)
	case len(o.hosts) == 0:
		return usagef("--listen %s can be reached by others: say with --hosts which host names browsers use", o.listen)
	}
	return nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// openConsole opens the tables with a small pool of their own and a statement timeout,
// so that the console can neither starve a relay nor keep a query running.
func openConsole(ctx context.Context, cfg *config.Config) (*database, []console.Source, error) {
	own := *cfg
	own.DSN = consoleDSN(cfg.DSN, true)
	db, stores, err := checked(ctx, &own, cfg.Relay.Tables)
	if err != nil && strings.Contains(err.Error(), "unsupported startup parameter") {
		// PgBouncer does not pass statement_timeout on; requests have a
		// deadline of their own.
		own.DSN = consoleDSN(cfg.DSN, false)
		db, stores, err = checked(ctx, &own, cfg.Relay.Tables)
	}
	if err != nil {
		return nil, nil, err
	}
	return db, consoleSources(stores), nil
}

func consoleSources(stores []store) []console.Source {
	sources := make([]console.Source, len(stores))
	for i, s := range stores {
		sources[i] = console.Source{Name: s.Table(), Inspector: s, Operator: s}
	}
	return sources
}

// consoleDSN adds the bounds to a PostgreSQL DSN that has none.
func consoleDSN(dsn string, timeout bool) string {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return dsn
	}
	query := u.Query()
	set := func(name, value string) {
		if !query.Has(name) {
			query.Set(name, value)
		}
	}
	set("pool_max_conns", "4")
	set("application_name", "outbox-console")
	if timeout {
		set("statement_timeout", "8000")
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// A webConsole is a console with its listener.
type webConsole struct {
	options consoleOptions
	console *console.Console
	server  *http.Server
	token   string // made for this run
	say     func(format string, args ...any)
	serving sync.WaitGroup
}

// newWebConsole makes a console from its flags. `relay --console ADDR` and `demo --serve`
// use it with nothing but an address: a token is then made for the run.
func (a *app) newWebConsole(o consoleOptions, sources []console.Source, log *slog.Logger) (*webConsole, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	w := &webConsole{options: o, say: a.warnf}
	auth, err := w.auth()
	if err != nil {
		return nil, err
	}
	w.console, err = console.New(console.Config{
		Stores: sources, Auth: auth, Path: o.path, Hosts: o.hosts, Secure: o.behindProxy, ReadOnly: o.readOnly,
		PayloadRole: console.Role(o.payloadRole), Version: version(), Log: log,
		Facts: []console.Fact{{Name: "Listen", Value: o.listen}},
	})
	if err != nil {
		return nil, err
	}
	w.server = &http.Server{
		Handler: w.console, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return w, nil
}

func (w *webConsole) auth() (console.Auth, error) {
	o := w.options
	if o.noAuth {
		return console.Auth{Open: console.RoleAdmin}, nil
	}
	users, err := w.readUsers()
	if err != nil {
		return console.Auth{}, err
	}
	if o.proxyHeader == "" {
		return console.Auth{Users: users}, nil
	}
	proxy := &console.Proxy{Header: o.proxyHeader, Users: users, Role: console.Role(o.proxyRole)}
	for _, text := range o.proxyFrom {
		prefix, err := parsePrefix(text)
		if err != nil {
			return console.Auth{}, usagef("--proxy-from %s: want an address or a network such as 10.0.0.0/8", text)
		}
		proxy.From = append(proxy.From, prefix)
	}
	return console.Auth{Proxy: proxy, Users: users}, nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

// readUsers reads the users file. Without one, and where nobody else is known, a token
// is made: there are no default credentials.
func (w *webConsole) readUsers() ([]console.User, error) {
	path := w.options.users
	if path == "" && w.options.proxyHeader != "" {
		return nil, nil
	}
	if path != "" {
		file, err := os.Open(path)
		if err == nil {
			defer file.Close()
			users, err := console.ParseUsers(file)
			if err != nil {
				return nil, fmt.Errorf("--users %s: %w", path, err)
			}
			return users, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	user := console.User{Name: currentUser(), Role: console.RoleAdmin}
	w.token, user.Secret = console.NewToken()
	if path != "" {
		if err := writeUsers(path, user); err != nil {
			return nil, err
		}
	}
	return []console.User{user}, nil
}

func writeUsers(path string, user console.User) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "# name role secret [tenant,tenant]; `outbox console user` makes a line\n%s\n", user)
	return errors.Join(err, file.Close())
}

// listen opens the listener and serves until close.
func (w *webConsole) listen(ctx context.Context, log *slog.Logger) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", w.options.listen)
	if err != nil {
		return fmt.Errorf("listen for the console: %w", err)
	}
	serve := func() error { return w.server.Serve(l) }
	scheme := "http"
	if w.options.cert != "" {
		scheme = "https"
		serve = func() error { return w.server.ServeTLS(l, w.options.cert, w.options.key) }
	}
	w.serving.Go(func() {
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			log.ErrorContext(ctx, "console listener failed", slog.Any("err", err))
		}
	})
	w.announce(scheme, l.Addr().String())
	return nil
}

// announce says where the console is. The token is in the fragment of the address, which
// no browser sends anywhere and no log sees.
func (w *webConsole) announce(scheme, addr string) {
	base := strings.TrimSuffix(w.options.path, "/")
	if len(w.options.hosts) > 0 {
		_, port, _ := net.SplitHostPort(addr)
		addr = net.JoinHostPort(w.options.hosts[0], port)
	}
	if w.token == "" {
		w.say("console: %s://%s%s/", scheme, addr, base)
		return
	}
	w.say("console: %s://%s%s/login#token=%s", scheme, addr, base, w.token)
	w.say("that token is shown once: keep it, or start again for another")
}

// close ends streams, jobs and the listener. Jobs can be resumed elsewhere.
func (w *webConsole) close(ctx context.Context) {
	w.console.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if w.server.Shutdown(ctx) != nil {
		_ = w.server.Close() // who still waits has been waiting for long
	}
	w.serving.Wait()
}

// consoleUserCommand prints a line for the users file.
func (a *app) consoleUserCommand() *cobra.Command {
	var role string
	var tenants []string
	var password bool
	cmd := &cobra.Command{
		Use:   "user NAME",
		Short: "Make a user: prints a line for the --users file",
		Long: "Make a user: prints a line for the --users file on standard output, and the token once on standard error.\n" +
			"With --password the secret is read from standard input instead.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			user := console.User{Name: args[0], Role: console.Role(role), Tenants: tenants}
			if !slices.Contains([]console.Role{console.RoleViewer, console.RoleOperator, console.RoleAdmin}, user.Role) {
				return usagef("--role %s: want viewer, operator or admin", role)
			}
			if password {
				return a.passwordUser(cmd, user)
			}
			var token string
			token, user.Secret = console.NewToken()
			a.warnf("token of %s, shown once: %s", user.Name, token)
			_, err := fmt.Fprintln(a.out, user)
			return err
		},
	}
	cmd.Flags().StringVar(&role, "role", string(console.RoleViewer), "viewer, operator or admin")
	cmd.Flags().StringSliceVar(&tenants, "tenants", nil, "see and change only messages of these tenants")
	cmd.Flags().BoolVar(&password, "password", false, "read a password from standard input")
	return cmd
}

func (a *app) passwordUser(cmd *cobra.Command, user console.User) error {
	lines := bufio.NewScanner(cmd.InOrStdin())
	if !lines.Scan() {
		return usagef("no password on standard input")
	}
	secret, err := console.HashPassword(strings.TrimRight(lines.Text(), "\r\n"))
	if err != nil {
		return err
	}
	user.Secret = secret
	_, err = fmt.Fprintln(a.out, user)
	return err
}
