package workspace

// StandardInput is the argument that stands for a Beefile on standard input.
const StandardInput = "-"

// MaxBeefile bounds a Beefile on standard input, in bytes.
const MaxBeefile = 1 << 20
