package library

import "embed"

//go:embed all:arm64
var built embed.FS
