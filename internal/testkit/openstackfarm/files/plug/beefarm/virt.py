"""A compute driver of Nova whose servers are network namespaces with a start script and an sshd."""

import base64
import os
import shutil
import subprocess

from nova.virt import fake

FARM = os.environ["FARM"]


def run(*argv):
    subprocess.run(argv, check=True, capture_output=True)


def name(instance):
    return "i" + instance.uuid[:8]


def files(instance):
    return os.path.join(FARM, "machines", name(instance))


class FarmDriver(fake.SmallFakeDriver):
    def spawn(self, context, instance, image_meta, injected_files, admin_password, allocations, network_info=None, **more):
        broken = os.path.join(FARM, "break")
        if os.path.exists(broken):
            os.remove(broken)
            raise RuntimeError("the test wants it")
        space, own = name(instance), files(instance)
        os.makedirs(os.path.join(own, "scratch"))
        port = network_info[0]
        address = port["network"]["subnets"][0]["ips"][0]["address"]
        run("ip", "netns", "add", space)
        run("ip", "link", "add", space + "h", "type", "veth", "peer", "name", "eth0", "netns", space)
        run("ip", "link", "set", space + "h", "master", "br0", "up")
        run("ip", "-n", space, "link", "set", "lo", "up")
        run("ip", "-n", space, "link", "set", "eth0", "address", port["address"], "up")
        run("ip", "-n", space, "addr", "add", address + "/24", "dev", "eth0")
        run("cp", "-a", os.path.join(FARM, "etc"), os.path.join(own, "etc"))
        with open(os.path.join(own, "user-data"), "wb") as script:
            script.write(base64.b64decode(instance.user_data or ""))
        with open(os.path.join(own, "console"), "w") as console:
            subprocess.Popen(
                ["ip", "netns", "exec", space, "unshare", "-mu", "--propagation", "private", "sh", os.path.join(FARM, "boot"), own, instance.hostname],
                stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT, start_new_session=True)
        super().spawn(context, instance, image_meta, injected_files, admin_password, allocations, network_info, **more)

    def destroy(self, context, instance, network_info, *more, **others):
        pids = subprocess.run(["ip", "netns", "pids", name(instance)], capture_output=True, text=True).stdout.split()
        if pids:
            subprocess.run(["kill", "-9", *pids], capture_output=True)
        subprocess.run(["ip", "netns", "del", name(instance)], capture_output=True)
        shutil.rmtree(files(instance), ignore_errors=True)
        super().destroy(context, instance, network_info, *more, **others)

    def get_console_output(self, context, instance):
        with open(os.path.join(files(instance), "console")) as console:
            return console.read()
