package catalog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/procid"
)

// automatic takes the first runtime, BEE's own, without trying it, unless
// something that can be read in no time says that it may not work here. Then
// each is tried in order, and the verdict is kept until the next boot.
func automatic(ctx context.Context, all []driver.Runtime, dir string) (driver.Runtime, string, error) {
	if !doubtful("/") {
		return all[0], "the first that works here", nil
	}
	return firstUsable(ctx, all, dir)
}

// firstUsable tries runtimes in order, unless the verdict of this boot is kept.
func firstUsable(ctx context.Context, all []driver.Runtime, dir string) (driver.Runtime, string, error) {
	file := filepath.Join(dir, "runtime")
	boot, _ := procid.Boot()
	if kept := strings.Fields(readWord(file)); len(kept) == 2 && kept[0] == boot && boot != "" {
		for _, rt := range all {
			if rt.Info().Name == kept[1] {
				return rt, "the first that worked when tried since the last boot", nil
			}
		}
	}
	rt, err := firstWorking(ctx, all)
	if err != nil {
		return nil, "", err
	}
	if dir != "" && os.MkdirAll(dir, 0o700) == nil { // a verdict that cannot be kept is found again
		core.BestEffort(fsutil.WriteFile(file, []byte(boot+" "+rt.Info().Name+"\n"), 0o600))
	}
	return rt, "the first of those tried that works here", nil
}

// firstWorking tries runtimes in order; where none works the error has the reason of each.
func firstWorking(ctx context.Context, all []driver.Runtime) (driver.Runtime, error) {
	var reasons []error
	for _, rt := range all {
		facts, err := rt.Probe(ctx)
		if err == nil && facts.Usable {
			return rt, nil
		}
		if err == nil {
			err = &core.Error{Kind: core.Unsupported, Remedy: facts.Remedy, Err: errors.New(facts.Reason)}
		}
		reasons = append(reasons, &core.Error{Kind: core.Unsupported, Op: rt.Info().Name, Err: err})
	}
	return nil, &core.Error{Kind: core.Unsupported, Op: "choose a runtime", Err: errors.Join(reasons...), Remedy: core.Remedy(reasons[0])}
}

// workingRuntime tries a runtime on this host, or for auto all of them, and names the
// one that works. It keeps no verdict.
func workingRuntime(ctx context.Context, name string) (string, error) {
	all := preferred()
	if name != "" && name != "auto" {
		rt, _, err := Runtime(ctx, name)
		if err != nil {
			return "", err
		}
		all = []driver.Runtime{rt}
	}
	rt, err := firstWorking(ctx, all)
	if err != nil {
		return "", err
	}
	return rt.Info().Name, nil
}

// verdictDir is the user's cache directory, as auto's verdict is of this user
// on this host.
func verdictDir() string {
	dir := os.Getenv("BEE_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(user, "bee")
	}
	host, err := os.Hostname() // home directories are shared among hosts
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "hosts", host)
}

// doubtful reads the settings by which systems forbid user namespaces.
func doubtful(root string) bool {
	at := func(path string) string { return readWord(filepath.Join(root, path)) }
	if at("/proc/sys/user/max_user_namespaces") == "0" || at("/proc/sys/kernel/unprivileged_userns_clone") == "0" || at("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
		return true
	}
	_, err := os.Stat(filepath.Join(root, "/proc/self/ns/user"))
	return err != nil || strings.Contains(at("/proc/self/status"), "\nSeccomp:\t2")
}

func readWord(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}
