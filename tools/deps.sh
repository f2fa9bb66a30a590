#!/bin/sh
# Installs the Debian packages named as arguments, as far as they are missing: as root, or
# with sudo where it asks for no password; otherwise prints the exact command and stops.
set -eu

missing=
for package; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
		missing="$missing $package"
done
[ -n "$missing" ] || exit 0

command="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" -eq 0 ]; then
	as=
elif sudo -n true 2>/dev/null; then
	as="sudo -n"
else
	echo "These packages are missing.  Run, as root:" >&2
	echo "    apt-get update && $command" >&2
	exit 1
fi
echo "installing:$missing"
$as env DEBIAN_FRONTEND=noninteractive sh -c "apt-get update -q && $command" >/dev/null
