"""Runs Nova's conductor, scheduler, compute and API in one process, which a transport in memory wants: CONFIG."""

import os
import sys

os.environ["OS_NOVA_DISABLE_EVENTLET_PATCHING"] = "true"
config_file = sys.argv[1]
os.environ["OS_NOVA_CONFIG_DIR"] = os.path.dirname(config_file)

import nova.monkey_patch  # noqa: E402

nova.monkey_patch.patch(backend="threading")

import nova.conf  # noqa: E402
import nova.virt  # noqa: E402
import waitress  # noqa: E402
from nova import config, objects, service  # noqa: E402
from nova.compute import rpcapi as compute  # noqa: E402
from nova.conductor import rpcapi as conductor  # noqa: E402
from nova.scheduler import rpcapi as scheduler  # noqa: E402
from oslo_log import log  # noqa: E402
from paste import deploy  # noqa: E402

import beefarm.virt  # noqa: E402

config.parse_args(["nova", "--config-file", config_file])
log.setup(nova.conf.CONF, "nova")
objects.register_all()
sys.modules["nova.virt.beefarm"] = nova.virt.beefarm = beefarm.virt
for binary, topic in (("nova-conductor", conductor.RPC_TOPIC), ("nova-scheduler", scheduler.RPC_TOPIC), ("nova-compute", compute.RPC_TOPIC)):
    service.Service.create(binary=binary, topic=topic).start()
application = deploy.loadapp("config:" + nova.conf.CONF.wsgi.api_paste_config, name="osapi_compute")
waitress.serve(application, host="127.0.0.1", port=8774, threads=8, _quiet=True)
