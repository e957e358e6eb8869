#!/usr/bin/env bash
# Print the Debian mirror that apt uses here.
set -euo pipefail
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | awk '/\/debian$/ && !n++')
[ -n "$mirror" ] || { echo "apt knows no Debian mirror" >&2; exit 1; }
echo "$mirror"
