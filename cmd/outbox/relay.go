package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/config"
	"github.com/go-outbox/outbox/console"
	"github.com/go-outbox/outbox/relay"
)

func (a *app) relayCommand() *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Hand committed messages to a destination until stopped",
		Long: "Hand committed messages to a destination until stopped. The first SIGTERM or SIGINT lets what is in flight\n" +
			"finish and gives the leases back; the second one exits at once. Logs go to standard error.",
		Example: "  outbox relay --dsn sqlite:shop.db --table shop_outbox --sink stdout:\n" +
			"  outbox relay --once --tables org_outbox,hrm_outbox --sink file:events.jsonl",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.load(cmd)
			if err != nil {
				return err
			}
			return a.relay(cmd.Context(), cfg, once)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "publish what is due, then exit")
	addSettings(cmd.Flags(), isSpecial)
	return cmd
}

func (a *app) relay(ctx context.Context, cfg *config.Config, once bool) error {
	log := a.logger(cfg.Log)
	for _, note := range cfg.Notes {
		log.WarnContext(ctx, "setting without effect", slog.String("note", note))
	}
	if cfg.Metrics.Enabled && cfg.Admin.Addr == "" {
		log.WarnContext(ctx, "metrics are enabled, but there is no admin listener: set --admin or OUTBOX_ADMIN_ADDR")
	}
	if reason := idle(cfg); reason != "" {
		log.InfoContext(ctx, "relaying nothing", slog.String("because", reason))
		if !once {
			<-ctx.Done()
		}
		return nil
	}

	sink, err := openSink(cfg, a.out)
	if err != nil {
		return err
	}
	err = a.relayTo(ctx, cfg, sink.Dispatcher, log, once)
	return errors.Join(err, sink.close())
}

// idle says why there is nothing to do, or "".
func idle(cfg *config.Config) string {
	switch {
	case !cfg.Relay.Enabled:
		return "relay.enabled is false"
	case len(cfg.Relay.Tables) == 0:
		return "relay.tables names none"
	}
	return ""
}

func (a *app) logger(cfg config.Log) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.SlogLevel()}
	if cfg.MaskTenant {
		options.ReplaceAttr = relay.MaskTenant
	}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(a.err, options))
	}
	return slog.New(slog.NewTextHandler(a.err, options))
}

func (a *app) relayTo(ctx context.Context, cfg *config.Config, d outbox.Dispatcher, log *slog.Logger, once bool) error {
	create := cfg.AutoMigrate != "false"
	db, stores, err := openTables(ctx, cfg, cfg.RelayTables(), create)
	if err != nil {
		return err
	}
	defer db.close()
	if cfg.AutoMigrate == "true" || cfg.AutoMigrate == "auto" && db.embedded {
		if err := migrateAll(ctx, stores, log); err != nil {
			return err
		}
	}
	adm, err := newAdmin(cfg, stores)
	if err != nil {
		return err
	}
	if err := adm.notify(ctx, cfg, log); err != nil {
		return err
	}
	defer adm.notified() // after the relays: they may report deaths while they drain
	relays, err := newRelays(ctx, cfg, stores, d, adm, log)
	if err != nil {
		return err
	}
	if once {
		return publishPending(ctx, stores, relays, log)
	}
	return a.serve(ctx, cfg, db, stores, relays, adm, log)
}

func migrateAll(ctx context.Context, stores []store, log *slog.Logger) error {
	for _, s := range stores {
		versions, err := s.Migrate(ctx)
		if err != nil {
			return err
		}
		if len(versions) > 0 {
			log.InfoContext(ctx, "schema migrated", slog.String("table", s.Table()), slog.Any("versions", versions))
		}
	}
	return nil
}

// newRelays makes one relay for each store whose schema is right.
func newRelays(
	ctx context.Context, cfg *config.Config, stores []store, d outbox.Dispatcher, adm *admin, log *slog.Logger,
) ([]*relay.Relay, error) {
	relays := make([]*relay.Relay, len(stores))
	for i, s := range stores {
		if err := s.CheckSchema(ctx); err != nil {
			return nil, err
		}
		rc := cfg.RelayConfig(s.Table())
		rc.Version, rc.Log = version(), log
		rc.Instance, rc.Hooks = adm.instance, adm.hooks()
		r, err := relay.New(s, d, rc)
		if err != nil {
			return nil, err
		}
		relays[i] = r
	}
	return relays, nil
}

// publishPending drains every table once. One that another relay holds does not keep
// the others from being drained.
func publishPending(ctx context.Context, stores []store, relays []*relay.Relay, log *slog.Logger) error {
	var errs []error
	for i, r := range relays {
		table := stores[i].Table()
		n, err := r.PublishPending(ctx)
		switch {
		case errors.Is(err, outbox.ErrLeaseHeld):
			err = fmt.Errorf("relay %s: %w: it does the work; see `outbox status`", table, err)
		case err != nil:
			err = fmt.Errorf("relay %s: %w", table, err)
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		default:
			log.InfoContext(ctx, "drained", slog.String("table", table), slog.Int("published", n))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// serve runs the relays and cleaners until ctx ends and everything has stopped.
func (a *app) serve(
	ctx context.Context, cfg *config.Config, db *database, stores []store, relays []*relay.Relay, adm *admin, log *slog.Logger,
) error {
	if err := adm.listen(ctx, log); err != nil {
		return err
	}
	defer adm.close()
	if cfg.Console.Addr != "" {
		closeConsole, err := a.consoleBeside(ctx, cfg, log)
		if err != nil {
			return err
		}
		defer closeConsole()
	}
	scheduler := relay.NewScheduler(relay.SchedulerConfig{Log: log})
	leading := make(map[string]func() bool, len(relays))
	for i, r := range relays {
		leading[stores[i].Table()] = r.Leading
		if err := scheduler.Add("relay "+stores[i].Table(), r.Run); err != nil {
			return err
		}
	}
	for _, name := range cfg.CleanerTables() {
		if err := addCleaner(scheduler, cfg, db, name, leading[name], adm, log); err != nil {
			return err
		}
	}

	// The tasks are stopped by Stop, not by ctx: cancelling is the first half
	// of it, waiting the second.
	if err := scheduler.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	log.InfoContext(ctx, "relaying", slog.Any("tables", cfg.RelayTables()), slog.String("version", version()))
	<-ctx.Done()
	log.InfoContext(ctx, "stopping", slog.Duration("at_most", cfg.Relay.DrainTimeout))
	limit := cfg.Relay.DrainTimeout + stopMargin
	wait, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), limit, fmt.Errorf("relays still run after %s", limit))
	defer cancel()
	if err := scheduler.Stop(wait); err != nil {
		return err
	}
	log.InfoContext(ctx, "stopped")
	return nil
}

// stopMargin is for what follows a drain: settling and giving the leases back.
const stopMargin = 15 * time.Second

func addCleaner(
	scheduler *relay.Scheduler, cfg *config.Config, db *database, table string, leading func() bool, adm *admin, log *slog.Logger,
) error {
	s, err := db.table(table)
	if err != nil {
		return err
	}
	cc := cfg.CleanerConfig()
	cc.Leader, cc.Log, cc.Hooks = leading, log, adm.metrics.Hooks()
	cleaner, err := relay.NewCleaner(s, cc)
	if err != nil {
		return err
	}
	return scheduler.Add("cleaner "+table, cleaner.Run)
}

// consoleBeside serves the web console beside the relays, with a pool of its own.
func (a *app) consoleBeside(ctx context.Context, cfg *config.Config, log *slog.Logger) (func(), error) {
	o := consoleOptions{listen: cfg.Console.Addr, path: "/", users: cfg.Console.Users, payloadRole: string(console.RoleAdmin)}
	if err := o.check(); err != nil {
		return nil, err
	}
	db, sources, err := openConsole(ctx, cfg)
	if err != nil {
		return nil, err
	}
	w, err := a.newWebConsole(o, sources, log)
	if err == nil {
		err = w.listen(ctx, log)
	}
	if err != nil {
		db.close()
		return nil, err
	}
	return func() { w.close(context.WithoutCancel(ctx)); db.close() }, nil
}
