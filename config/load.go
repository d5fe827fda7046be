package config

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/compat"
)

// FileVariable names the configuration file when Sources does not.
const FileVariable = "OUTBOX_CONFIG"

// Sources is where Load looks. The zero value finds only defaults.
type Sources struct {
	// Flags are the flags that were given, by name without dashes.
	Flags map[string]string
	// Env looks up an environment variable. os.LookupEnv is the usual one.
	Env func(name string) (value string, ok bool)
	// File is a YAML file. When it is empty, the environment may name one in
	// OUTBOX_CONFIG.
	File string
}

// Load reads every setting. Its error wraps an outbox.ErrInvalidConfig for each
// mistake found.
func Load(src Sources) (*Config, error) {
	c := &Config{origins: make(map[string]Origin, len(Settings))}
	file, err := src.file(c)
	errs := []error{err}
	for _, s := range Settings {
		errs = append(errs, c.read(s, src, file))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := c.resolve(); err != nil {
		return nil, err
	}
	return c, nil
}

// read sets one field from the first source that has it.
func (c *Config) read(s Setting, src Sources, file map[string]entry) error {
	text, origin, err := src.find(s, file)
	if err != nil {
		return err
	}
	c.origins[s.Key] = origin
	if origin.isDefault() && text == "" {
		return nil
	}
	if err := s.bind(c).set(text); err != nil {
		return invalid(label(s.Key, origin), err.Error())
	}
	return nil
}

func (src Sources) find(s Setting, file map[string]entry) (string, Origin, error) {
	if text, ok := src.Flags[s.Flag]; ok {
		return text, Origin{"flag", "--" + s.Flag}, nil
	}
	if text, name, err := src.findEnv(s); err != nil || name != "" {
		return text, Origin{"env", name}, err
	}
	if e, ok := file[s.Key]; ok {
		return e.value, Origin{"file", e.where}, nil
	}
	return s.Default, Origin{Kind: "default"}, nil
}

// findEnv returns the value and the name of the variable that had it. An empty
// variable counts as unset: that is what `VAR=` in a compose file means.
func (src Sources) findEnv(s Setting) (text, name string, err error) {
	for _, name := range s.Env {
		text := src.env(name)
		path := ""
		if s.Secret {
			path = src.env(name + "_FILE")
		}
		switch {
		case text != "" && path != "":
			return "", name, invalid(name, "is set, and so is "+name+"_FILE: unset one of them")
		case path != "":
			text, err := readSecret(path)
			if err != nil {
				return "", name, invalid(name+"_FILE", err.Error())
			}
			return text, name + "_FILE", nil
		case text != "":
			return text, name, nil
		}
	}
	return "", "", nil
}

func (src Sources) env(name string) string {
	if src.Env == nil {
		return ""
	}
	text, _ := src.Env(name)
	return text
}

func readSecret(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(b), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return text, nil
}

// resolve computes what depends on several settings and refuses contradictions.
func (c *Config) resolve() error {
	return errors.Join(append(c.checkRoutes(), c.resolveShards(), c.resolveRetries())...)
}

// shardsByDefault is how many shards single_active=false means without a number.
const shardsByDefault = 8

func (c *Config) resolveShards() error {
	r := &c.Relay
	single, shards := c.origins["relay.single_active"], c.origins["relay.shards"]
	switch {
	case single.isDefault() && shards.isDefault():
		// The table stays as it is.
	case single.isDefault():
		r.SingleActive = r.Shards == 1
	case shards.isDefault():
		r.Shards = 1
		if !r.SingleActive {
			r.Shards = shardsByDefault
		}
	case r.SingleActive && r.Shards > 1, !r.SingleActive && r.Shards == 1:
		return invalid(label("relay.single_active", single), fmt.Sprintf("%t contradicts %s = %d: unset one of them",
			r.SingleActive, label("relay.shards", shards), r.Shards))
	}
	return nil
}

func (c *Config) resolveRetries() error {
	r := &c.Relay
	policy, err := compat.Retry(r.RetryPreset)
	if err != nil {
		return invalid(label("relay.retry_preset", c.origins["relay.retry_preset"]),
			fmt.Sprintf("must be one of %s, got %q", strings.Join(compat.Presets(), ", "), r.RetryPreset))
	}
	preset(c, "relay.max_attempts", &r.MaxAttempts, policy.MaxAttempts)
	preset(c, "relay.retry_base", &r.RetryBase, policy.Base)
	preset(c, "relay.retry_max", &r.RetryMax, policy.Max)
	if r.RetryMax < r.RetryBase {
		return invalid(label("relay.retry_max", c.origins["relay.retry_max"]),
			fmt.Sprintf("%s is shorter than %s = %s", r.RetryMax, label("relay.retry_base", c.origins["relay.retry_base"]), r.RetryBase))
	}
	return nil
}

func preset[T int | time.Duration](c *Config, key string, field *T, value T) {
	if c.origins[key].isDefault() {
		*field = value
		c.origins[key] = Origin{"preset", c.Relay.RetryPreset}
	}
}

// label names a setting the way the user did.
func label(key string, o Origin) string {
	switch o.Kind {
	case "flag", "env":
		return o.Name
	case "file":
		return o.Name + ": " + key
	}
	return key
}

func invalid(name, text string) error { return outbox.ErrInvalidConfig.With(name, text) }

func quote(s string) string { return strconv.Quote(s) }
