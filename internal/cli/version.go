package cli

// Version is set by the Makefile with -ldflags -X, from the tag if there is one.
var Version = "0.1.0"
