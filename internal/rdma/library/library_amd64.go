package library

import "embed"

//go:embed all:amd64
var built embed.FS
