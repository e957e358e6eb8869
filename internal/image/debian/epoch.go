package debian

import (
	"context"
	"errors"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
)

// Epoch is the time that files made by the build get, so that two builds of
// the same packages are the same image: the snapshot's, else that of the
// mirror's newest release file. It must not be older than the files of
// packages, which keep their own times: Python's compiled files are taken for
// stale otherwise, and everything is compiled again in each process.
func Epoch(ctx context.Context, b spec.Build, sources []string) (int64, error) {
	if b.Snapshot != "" {
		t, err := b.SnapshotTime()
		if err != nil {
			return 0, &core.Error{Kind: core.Invalid, Op: "read build.snapshot", Object: b.Snapshot, Err: errors.New("it is no date"), Remedy: "Write it as 20250520T000000Z."}
		}
		return t.Unix(), nil
	}
	newest := int64(1)
	for _, line := range sources {
		if !strings.HasPrefix(line, "deb ") { // a mirror by its URL only
			line = "deb " + line + " " + b.Debian + " main"
		}
		f := dropOptions(strings.Fields(line)[1:])
		if len(f) < 2 {
			continue
		}
		if t, err := releaseDate(ctx, strings.TrimSuffix(f[0], "/")+"/dists/"+f[1]+"/InRelease"); err == nil {
			newest = max(newest, t.Unix())
		}
	}
	return newest, nil
}

// releaseDate asks a mirror by apt's own helper, which knows the host's
// proxies and certificates.
func releaseDate(ctx context.Context, url string) (time.Time, error) {
	dir, err := fsutil.TempDir("", "bee-release-")
	if err != nil {
		return time.Time{}, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "InRelease")
	if err := exec.CommandContext(ctx, "/usr/lib/apt/apt-helper", "-o", "APT::Sandbox::User=", "download-file", url, file).Run(); err != nil {
		return time.Time{}, err
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return time.Time{}, err
	}
	return parseDate(string(raw))
}

func parseDate(release string) (time.Time, error) {
	for _, line := range strings.Split(release, "\n") {
		if date, ok := strings.CutPrefix(line, "Date: "); ok {
			return mail.ParseDate(strings.Replace(strings.TrimSpace(date), "UTC", "+0000", 1))
		}
	}
	return time.Time{}, errors.New("the release file has no date")
}
