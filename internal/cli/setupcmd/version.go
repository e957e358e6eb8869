package setupcmd

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// VersionCommand returns the command `version`.
func (a *Commands) VersionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "Show the version of bee", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return a.WriteJSON(map[string]string{"version": a.Version, "go": runtime.Version(), "platform": platform, "commit": commit()})
			}
			_, err := fmt.Fprintln(a.Stdout, "bee version", VersionText(a.Version))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

const platform = runtime.GOOS + "/" + runtime.GOARCH

// VersionText is a version as `bee version` prints it.
func VersionText(version string) string {
	return fmt.Sprintf("%s (%s, %s, %s)", version, commit(), platform, runtime.Version())
}

// revision is set by hack/release.sh with -ldflags -X: a release has no stamp of git's.
var revision string

// commit is that of the sources, in twelve digits.
func commit() string {
	if revision != "" {
		return revision
	}
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
