#!/usr/bin/env bash
# Install the services of OpenStack that `make test-long` runs as root, from PyPI, in a virtual environment of their own.
set -euo pipefail
((EUID == 0)) || exit 0
venv=/var/cache/bee-tests/openstack
[ ! -e "$venv/done" ] || exit 0
echo "installing OpenStack for tests"
rm -rf "$venv"
mkdir -p "$(dirname "$venv")"
python3 -m venv --without-pip "$venv"
python3 -m pip --python "$venv/bin/python" install -q "keystone==30.*" "openstack-placement==16.*" "glance==33.*" "neutron==29.*" "nova==34.*" "blazar==18.*" "blazar-nova==10.*" waitress pymysql
touch "$venv/done"
