"""Runs Blazar's manager and API in one process, which a transport in memory wants: CONFIG."""

import gettext
import os
import sys
import threading

gettext.install("blazar")  # before its modules: they call it
config_file = sys.argv[1]
os.environ["OS_BLAZAR_CONFIG_DIR"] = os.path.dirname(config_file)

import waitress  # noqa: E402
from blazar.api import app  # noqa: E402
from blazar.manager import service as manager  # noqa: E402
from blazar.notification import notifier  # noqa: E402
from blazar.utils import service  # noqa: E402
from oslo_config import cfg  # noqa: E402

arguments = ["--config-file", config_file]
cfg.CONF(arguments, project="blazar", prog="blazar-manager")
service.prepare_service(["blazar-manager", *arguments])
notifier.init()
threading.Thread(target=manager.ManagerService().start, daemon=True).start()
waitress.serve(app.VersionSelectorApplication(), host="127.0.0.1", port=1234, threads=4, _quiet=True)
