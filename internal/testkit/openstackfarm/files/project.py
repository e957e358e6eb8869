"""Makes what a project has: networks, an image, flavors and an application credential. It writes clouds.yaml."""

import sys

from api import COMPUTE, IDENTITY, IMAGE, NETWORK, call, login

token, body = login()


def make(service, what, kind, **attributes):
    return call("POST", service + what, {kind: attributes}, token)[1].get(kind, {}).get("id")


private = make(NETWORK, "networks", "network", name="private")
subnet = make(NETWORK, "subnets", "subnet", network_id=private, ip_version=4, cidr="10.77.0.0/24", gateway_ip="10.77.0.1")
public = make(NETWORK, "networks", "network", name="public", **{"router:external": True})
make(NETWORK, "subnets", "subnet", network_id=public, ip_version=4, cidr="198.51.100.0/28", enable_dhcp=False)
router = make(NETWORK, "routers", "router", name="router", external_gateway_info={"network_id": public})
call("PUT", f"{NETWORK}routers/{router}/add_router_interface", {"subnet_id": subnet}, token)
image = {"name": "debian-12", "disk_format": "raw", "container_format": "bare", "os_admin_user": "root"}
image = call("POST", IMAGE + "images", image, token)[1]["id"]
call("PUT", f"{IMAGE}images/{image}/file", b"no machine reads it", token, "application/octet-stream")
for name, cores in (("m1.small", 1), ("m1.huge", 100)):
    make(COMPUTE, "flavors", "flavor", name=name, ram=256, vcpus=cores, disk=0)
owner = f"users/{body['user']['id']}/application_credentials"
credential = call("POST", IDENTITY + owner, {"application_credential": {"name": "bee", "roles": [{"name": "admin"}]}}, token)[1]["application_credential"]
with open(sys.argv[1], "w") as clouds:
    clouds.write(
        "clouds:\n  test:\n    auth_type: v3applicationcredential\n    region_name: RegionOne\n    auth: {auth_url: %s, application_credential_id: %s, application_credential_secret: %s}\n"
        % (IDENTITY, credential["id"], credential["secret"]))
    clouds.write(
        "  password:\n    region_name: RegionOne\n    auth: {auth_url: %s, username: admin, password: secret, project_name: admin, user_domain_name: Default, project_domain_name: Default}\n" % IDENTITY)
