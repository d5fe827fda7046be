// Package config reads the settings of a relay daemon, or of an application that
// embeds relays the way the daemon does.
//
// One table, [Settings], says what there is: it drives parsing, printing and the
// reference in docs/configuration.md, so these cannot disagree. A setting comes from
// a flag, else the environment, else a YAML file, else its default. Whatever is
// wrong is reported at once and by the name the user gave it: unknown keys of the
// file with their line, values out of range, settings that contradict each other.
// Secrets are masked wherever this package prints.
//
// Load opens no database and knows no sink: that a DSN parses as a setting does not
// mean that anything answers there. Unknown environment variables are not errors,
// because the environment is shared; Kubernetes, for one, sets OUTBOX_RELAY_PORT in
// every pod beside a service named outbox-relay.
package config
