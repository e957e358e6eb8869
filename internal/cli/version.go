package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version is set by the Makefile with -ldflags -X, from the tag if there is one.
var Version = "0.1.0"

func (a *app) newVersionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "Show the version of bee", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return a.WriteJSON(map[string]string{"version": Version, "go": runtime.Version(), "platform": platform, "commit": commit()})
			}
			_, err := fmt.Fprintln(a.Stdout, "bee version", versionText())
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

const platform = runtime.GOOS + "/" + runtime.GOARCH

func versionText() string {
	return fmt.Sprintf("%s (%s, %s, %s)", Version, commit(), platform, runtime.Version())
}

func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	return "unknown"
}
