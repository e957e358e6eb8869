"""Makes Neutron's tables: URL. Its migrations take minutes."""

import sys

from neutron.db.migration.models import head  # noqa: F401: it knows all tables
from neutron_lib.db import model_base
from sqlalchemy import create_engine

model_base.BASEV2.metadata.create_all(create_engine(sys.argv[1]))
