"""Calls of the services, as their administrator. Run as a program: what is left in the project, the L3 agent, or what Blazar does."""

import datetime
import json
import subprocess
import sys
import time
import urllib.request

IDENTITY = "http://127.0.0.1:35357/v3/"
NETWORK = "http://127.0.0.1:9696/v2.0/"
COMPUTE = "http://127.0.0.1:8774/v2.1/"
RESERVATION = "http://127.0.0.1:1234/v1/"
IMAGE = "http://127.0.0.1:9292/v2/"


def call(method, url, body=None, token="", kind="application/json"):
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, method=method, data=data, headers={"Accept": "application/json", "Content-Type": kind, "X-Auth-Token": token})
    with urllib.request.urlopen(request, timeout=120) as answer:
        raw = answer.read()
        return answer.headers, json.loads(raw) if raw else {}


def login():
    user = {"name": "admin", "password": "secret", "domain": {"id": "default"}}
    auth = {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": {"project": {"name": "admin", "domain": {"id": "default"}}}}
    headers, body = call("POST", IDENTITY + "auth/tokens", {"auth": auth})
    return headers["X-Subject-Token"], body["token"]


def left(token):
    """Prints what there is in the project."""
    for s in call("GET", COMPUTE + "servers/detail", token=token)[1]["servers"]:
        print("server", s["name"], s["status"])
    for g in call("GET", NETWORK + "security-groups", token=token)[1]["security_groups"]:
        if g["name"] != "default":
            print("group", g["name"])
    for f in call("GET", NETWORK + "floatingips", token=token)[1]["floatingips"]:
        print("floating", f["floating_ip_address"])
    for lease in call("GET", RESERVATION + "leases", token=token)[1]["leases"]:
        print("lease", lease["name"], lease["status"])


def reserve(token, node_type):
    """Gives Blazar the only host."""
    call("POST", COMPUTE + "os-aggregates", {"aggregate": {"name": "freepool"}}, token)
    host = call("GET", COMPUTE + "os-hypervisors", token=token)[1]["hypervisors"][0]["hypervisor_hostname"]
    call("POST", RESERVATION + "os-hosts", {"name": host, "node_type": node_type}, token)


def end_leases(token):
    """Has all leases end with the next minute, which is the smallest unit of Blazar's."""
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=1)
    for lease in call("GET", RESERVATION + "leases", token=token)[1]["leases"]:
        call("PUT", RESERVATION + "leases/" + lease["id"], {"end_date": end.strftime("%Y-%m-%d %H:%M")}, token)


def agent(token):
    """Gives machines their floating addresses, as an L3 agent would."""
    done = set()
    while True:
        for f in call("GET", NETWORK + "floatingips", token=token)[1]["floatingips"]:
            if f["port_id"] and f["id"] not in done:
                port = call("GET", NETWORK + "ports/" + f["port_id"], token=token)[1]["port"]
                subprocess.run(["ip", "-n", "i" + port["device_id"][:8], "addr", "add", f["floating_ip_address"] + "/32", "dev", "eth0"])
                done.add(f["id"])
        time.sleep(0.3)


if __name__ == "__main__":
    {"left": left, "agent": agent, "reserve": reserve, "end_leases": end_leases}[sys.argv[1]](login()[0], *sys.argv[2:])
