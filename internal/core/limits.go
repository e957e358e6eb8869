package core

// CoresVariable, in the environment of a container's first process, is the number of cores
// that the container's processes may use, of those of its host. Containers that share a host
// have theirs one after the other, by the number of their node.
const CoresVariable = "BEE_LIMIT_CORES"

// MemoryVariable, in the same environment, is the memory in bytes that the container's processes
// may use together. Runtimes that have a limit of their own set it, where the host allows.
const MemoryVariable = "BEE_LIMIT_MEMORY"
