package nodecmd

import (
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

// TestNamesInSSHsConfiguration: what a site chooses adds no line to it.
func TestNamesInSSHsConfiguration(t *testing.T) {
	for login, ok := range map[string]bool{
		"jane": true, "root": true, "svc-1": true,
		"jane\n  ProxyCommand touch x": false, "a b": false, "-oProxyCommand=x": false, "": false, "%h": false, "`id`": false, "\x1b[2J": false,
	} {
		if err := checkLogin(login); (err == nil) != ok || err != nil && (!core.IsKind(err, core.Invalid) || core.Remedy(err) == "") {
			t.Errorf("%q: %v", login, err)
		}
	}
	for path, ok := range map[string]bool{"/home/jane/.local/state/bee": true, "/a b/%x": true, "/a\nHost *": false, `/a"b`: false} {
		if err := settable(path); (err == nil) != ok {
			t.Errorf("%q: %v", path, err)
		}
	}
}
