-- For MODULEPATH/bee-hpc/@VERSION@.lua, with the archive of the release unpacked below `base`.
help([[Runs Docker images of MPI applications, unmodified, on any site: bee doctor]])
whatis("Name: bee-hpc")
whatis("Version: @VERSION@")
whatis("URL: https://github.com/bee-hpc/bee")

local base = pathJoin(os.getenv("BEE_HPC_BASE") or "/opt/bee-hpc", "@VERSION@")
prepend_path("PATH", base)
prepend_path("MANPATH", pathJoin(base, "man"))
