# For the directory packages/bee_hpc of a Spack repository.
import platform

from spack.package import *


class BeeHpc(Package):
    """Runs Docker images of MPI applications, unmodified, on any site."""

    homepage = "https://github.com/bee-hpc/bee"

    license("Apache-2.0")

    sums = {
        "amd64": "@SHA256_AMD64@",
        "arm64": "@SHA256_ARM64@",
    }
    arch = "arm64" if platform.machine() == "aarch64" else "amd64"
    version(
        "@VERSION@",
        sha256=sums[arch],
        url=f"https://github.com/bee-hpc/bee/releases/download/v@VERSION@/bee-@VERSION@-linux-{arch}.tar.gz",
    )

    def install(self, spec, prefix):
        mkdirp(prefix.bin)
        install("bee", prefix.bin)
        install_tree("man", prefix.share.man)
        mkdirp(prefix.share.join("bash-completion").completions)
        install("completions/bee.bash", prefix.share.join("bash-completion").completions.bee)
