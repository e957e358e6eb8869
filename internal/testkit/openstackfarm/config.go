package openstackfarm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// services are the configuration files. @NAME@ stands for the farm's own: DIR, VENV, DB (the beginning of a
// database's address), AUTH (the user of the services) and TOKEN (the check of tokens).
var services = map[string]string{
	"keystone.conf": `[DEFAULT]
log_file = @DIR@/log/keystone.log
[database]
connection = @DB@/keystone?charset=utf8
[token]
provider = fernet
[fernet_tokens]
key_repository = @DIR@/fernet
[credential]
key_repository = @DIR@/credential
[identity]
password_hash_rounds = 4
`,
	"placement.conf": `[DEFAULT]
log_file = @DIR@/log/placement.log
[api]
auth_strategy = keystone
[placement_database]
connection = @DB@/placement?charset=utf8
[keystone_authtoken]
@TOKEN@`,
	"glance-api.conf": `[DEFAULT]
log_file = @DIR@/log/glance.log
enabled_backends = f:file
[database]
connection = @DB@/glance?charset=utf8
[glance_store]
default_backend = f
[f]
filesystem_store_datadir = @DIR@/images
[paste_deploy]
flavor = keystone
config_file = @VENV@/etc/glance/glance-api-paste.ini
[keystone_authtoken]
@TOKEN@`,
	"ml2.ini": `[ml2]
type_drivers = local
tenant_network_types = local
mechanism_drivers = beefarm
`,
	"neutron.conf": `[DEFAULT]
log_file = @DIR@/log/neutron.log
core_plugin = ml2
service_plugins = router
transport_url = fake://
api_paste_config = @VENV@/etc/neutron/api-paste.ini
notify_nova_on_port_status_changes = true
notify_nova_on_port_data_changes = true
auth_strategy = keystone
state_path = @DIR@
rpc_workers = 0
api_workers = 0
[oslo_concurrency]
lock_path = @DIR@/lock
[database]
connection = @DB@/neutron?charset=utf8
[nova]
@AUTH@[placement]
@AUTH@[keystone_authtoken]
@TOKEN@`,
	"nova.conf": `[DEFAULT]
log_file = @DIR@/log/nova.log
state_path = @DIR@
transport_url = fake://
compute_driver = beefarm.FarmDriver
my_ip = 127.0.0.1
host = farm
osapi_compute_workers = 1
[filter_scheduler]
available_filters = nova.scheduler.filters.all_filters
available_filters = blazarnova.scheduler.filters.blazar_filter.BlazarFilter
enabled_filters = ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,BlazarFilter
[api]
auth_strategy = keystone
[wsgi]
api_paste_config = @VENV@/etc/nova/api-paste.ini
[api_database]
connection = @DB@/nova_api?charset=utf8
[database]
connection = @DB@/nova_cell1?charset=utf8
[oslo_concurrency]
lock_path = @DIR@/lock
[placement]
@AUTH@[neutron]
@AUTH@[glance]
@AUTH@[cinder]
@AUTH@[service_user]
send_service_user_token = true
@AUTH@[keystone_authtoken]
@TOKEN@`,
	"blazar.conf": `[DEFAULT]
log_file = @DIR@/log/blazar.log
transport_url = fake://
host = 127.0.0.1
port = 1234
os_auth_host = 127.0.0.1
os_auth_port = 35357
os_auth_protocol = http
os_auth_version = v3
os_admin_username = admin
os_admin_password = secret
os_admin_project_name = admin
identity_service = identity
os_region_name = RegionOne
[manager]
plugins = physical.host.plugin
event_interval = 2
minutes_before_end_lease = 0
[database]
connection = @DB@/blazar?charset=utf8
[oslo_concurrency]
lock_path = @DIR@/lock
[nova]
@AUTH@[placement]
@AUTH@[keystone_authtoken]
@TOKEN@`,
}

// databases are those of the services.
const databases = "keystone placement glance neutron nova_api nova_cell0 nova_cell1 blazar"

const (
	auth = `auth_type = password
auth_url = http://127.0.0.1:35357/v3
username = admin
password = secret
project_name = admin
user_domain_name = Default
project_domain_name = Default
region_name = RegionOne
`
	token = "www_authenticate_uri = http://127.0.0.1:35357/v3\nservice_token_roles_required = false\n" + auth
)

// database returns the address of a database for SQLAlchemy.
func (f *Farm) database(name string) string {
	return fmt.Sprintf("mysql+pymysql://o:o@127.0.0.1:%s/%s?charset=utf8", databasePort, name)
}

// configure writes the configuration files.
func (f *Farm) configure() error {
	fill := strings.NewReplacer("@DIR@", f.dir, "@VENV@", venv, "@DB@", "mysql+pymysql://o:o@127.0.0.1:"+databasePort, "@AUTH@", auth, "@TOKEN@", token)
	for name, text := range services {
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte(fill.Replace(text)), 0o600); err != nil {
			return err
		}
	}
	return nil
}
