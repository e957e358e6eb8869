"""Lists the services in Keystone's catalog, and gives their user the role by which Nova deletes in its own name."""

from api import COMPUTE, IDENTITY, RESERVATION, call, login

token, body = login()
for kind, url in (("compute", COMPUTE), ("placement", "http://127.0.0.1:8778"), ("image", "http://127.0.0.1:9292"), ("network", "http://127.0.0.1:9696"), ("reservation", RESERVATION)):
    service = call("POST", IDENTITY + "services", {"service": {"name": kind, "type": kind}}, token)[1]["service"]["id"]
    for interface in ("public", "internal"):
        endpoint = {"service_id": service, "interface": interface, "url": url.rstrip("/"), "region_id": "RegionOne"}
        call("POST", IDENTITY + "endpoints", {"endpoint": endpoint}, token)
roles = {r["name"]: r["id"] for r in call("GET", IDENTITY + "roles", token=token)[1]["roles"]}
role = roles.get("service") or call("POST", IDENTITY + "roles", {"role": {"name": "service"}}, token)[1]["role"]["id"]
call("PUT", f"{IDENTITY}projects/{body['project']['id']}/users/{body['user']['id']}/roles/{role}", token=token)
