package main

import (
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/go-outbox/outbox/config"
	"github.com/go-outbox/outbox/sink/webhooksink"
	"github.com/go-outbox/outbox/webhook"
)

// openWebhook makes the sink of an https:// URL. A port that the URL names is one
// that the operator wants.
func openWebhook(cfg *config.Config) (*sink, error) {
	wc := webhooksink.Config{URL: cfg.Sink, Timeout: cfg.Relay.DispatchTimeout / 2}
	var err error
	if wc.Secrets, err = webhookSecrets(cfg.Webhook.SecretFile); err != nil {
		return nil, err
	}
	for _, text := range cfg.Webhook.Allow {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, usagef("webhook.allow: %q is no network: want a CIDR such as 10.0.0.0/8", text)
		}
		wc.Allow = append(wc.Allow, network)
	}
	if u, err := url.Parse(cfg.Sink); err == nil && u.Port() != "" {
		if port, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
			wc.Ports = append(wc.Ports, uint16(port))
		}
	}
	s, err := webhooksink.New(wc)
	if err != nil {
		return nil, usagef("sink: %v", err)
	}
	return &sink{s, s.Close}, nil
}

// webhookSecrets reads a file with one secret a line.
func webhookSecrets(path string) ([]webhook.Secret, error) {
	if path == "" {
		return nil, usagef("a webhook needs a secret to sign with: use --webhook-secret-file FILE or OUTBOX_WEBHOOK_SECRET_FILE")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, usagef("webhook.secret_file: %v", err)
	}
	var secrets []webhook.Secret
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		secret, err := webhook.ParseSecret(line)
		if err != nil {
			return nil, usagef("webhook.secret_file: %s: line %d: %v", path, len(secrets)+1, err)
		}
		secrets = append(secrets, secret)
	}
	if len(secrets) == 0 {
		return nil, usagef("webhook.secret_file: %s holds no secret", path)
	}
	return secrets, nil
}
