package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// peer is another file system that one client mounts, as its documentation recommends.
type peer struct {
	name, program, remote string
	// prepare makes the peer's volume, with small files in its directory many; it returns the command that mounts it.
	prepare func(ctx context.Context, mnt string) (argv []string, err error)
	// again returns the command for a mount that has read nothing yet; nil: the first one has not.
	again func(ctx context.Context, mnt string) (argv []string, err error)
}

// smallRates are of operations on small files, in a second.
type smallRates struct {
	rates
	read float64
}

// fileLimit is how long one kind of operation takes at most, in seconds.
func fileLimit(s sizes) string { return strconv.Itoa(s.each) }

// beeFiles measures small files in the volume of a job.
func (m *measurement) beeFiles(ctx context.Context, j *job) (r smallRates, err error) {
	n := strconv.Itoa(m.sizes.files)
	if err := j.tool(ctx, 1, &r.rates, "files", "/work/new", n, fileLimit(m.sizes)); err != nil {
		return r, err
	}
	return r, j.tool(ctx, 1, &r.read, "read", "/work/many", n, fileLimit(m.sizes))
}

// files compares small files with each peer that there is.
func (m *measurement) files(ctx context.Context) error {
	own := map[string]smallRates{}
	wide, err := m.wideJob(ctx)
	if err != nil {
		return err
	}
	bucket, err := m.bucketJob(ctx)
	if err != nil {
		return err
	}
	for remote, j := range map[string]*job{"ssh": wide, "S3": bucket} {
		if own[remote], err = m.beeFiles(ctx, j); err != nil {
			return err
		}
	}
	for _, p := range m.peers() {
		what := fmt.Sprintf("files of 4 KiB, %d at most, up to %d s: ", m.sizes.files, m.each)
		if _, err := exec.LookPath(p.program); err != nil {
			if err := report(Row{what + p.remote, "–", p.name + " is not installed", "–"}); err != nil {
				return err
			}
			continue
		}
		theirs, err := m.peerFiles(ctx, p)
		if err != nil {
			if err := report(Row{what + p.remote, "–", fmt.Sprintf("%s failed: %s", p.name, core.Printable(strings.Join(strings.Fields(err.Error()), " "), 300)), "–"}); err != nil {
				return err
			}
			continue
		}
		of := own[p.remote]
		for _, op := range []struct {
			name        string
			own, theirs float64
		}{{"create", of.Create, theirs.Create}, {"stat", of.Stat, theirs.Stat}, {"read cold", of.read, theirs.read}, {"remove", of.Remove, theirs.Remove}} {
			if err := report(Row{what + op.name + ", " + p.remote, perSecond(op.own), p.name + " " + perSecond(op.theirs), ratio(op.own, op.theirs)}); err != nil {
				return err
			}
		}
	}
	return nil
}

func perSecond(v float64) string { return fmt.Sprintf("%.4g/s", v) }

// peerFiles measures small files of a peer on the first client's host.
func (m *measurement) peerFiles(ctx context.Context, p peer) (r smallRates, err error) {
	argv, err := p.prepare(ctx, m.path("mnt", p.program))
	if err != nil {
		return r, err
	}
	n := strconv.Itoa(m.sizes.files)
	err = m.mounted(ctx, p.program, argv, func(mnt string) error {
		if err := toolOn(ctx, m, &r.rates, "files", filepath.Join(mnt, "new"), n, fileLimit(m.sizes)); err != nil || p.again != nil {
			return err
		}
		return toolOn(ctx, m, &r.read, "read", filepath.Join(mnt, "many"), n, fileLimit(m.sizes))
	})
	if err != nil || p.again == nil {
		return r, err
	}
	name := p.program + "-again"
	if argv, err = p.again(ctx, m.path("mnt", name)); err != nil {
		return r, err
	}
	return r, m.mounted(ctx, name, argv, func(mnt string) error {
		return toolOn(ctx, m, &r.read, "read", filepath.Join(mnt, "many"), n, fileLimit(m.sizes))
	})
}

// mounted does something while a peer is mounted, whose command stays in the foreground.
func (m *measurement) mounted(ctx context.Context, name string, argv []string, do func(mnt string) error) error {
	mnt := m.path("mnt", name)
	if err := m.launch(ctx, firstClient, argv...); err != nil {
		return err
	}
	if _, err := m.until(ctx, func() (string, error) { return m.on(ctx, firstClient, "mountpoint", mnt) }); err != nil {
		raw, _ := os.ReadFile(m.path(hostname(firstClient) + ".log")) // "" says nothing
		return fmt.Errorf("%w: %s", err, raw[max(0, len(raw)-1000):])
	}
	err := do(mnt)
	_, uerr := m.on(ctx, firstClient, "umount", "-l", mnt)
	return errors.Join(err, uerr)
}

// toolOn runs a tool on the first client's host, outside of any container.
func toolOn(ctx context.Context, m *measurement, result any, args ...string) error {
	out, err := m.on(ctx, firstClient, append([]string{m.program(), toolArg}, args...)...)
	if err == nil {
		err = json.Unmarshal([]byte(out), result)
	}
	return err
}

// smallFiles makes the directory many in one of this machine.
func smallFiles(dir string, n int) error {
	if err := os.MkdirAll(filepath.Join(dir, "many"), 0o755); err != nil {
		return err
	}
	for i := range n {
		if err := noise(small(filepath.Join(dir, "many"), i), smallFile); err != nil {
			return err
		}
	}
	return nil
}

// upload has the bucket have a directory of this machine. The far host sends it to itself.
func (m *measurement) upload(ctx context.Context, dir, prefix string) error {
	if err := m.startBucket(ctx); err != nil {
		return err
	}
	_, err := m.on(ctx, farHost, m.program(), toolArg, "put", dir, prefix)
	return err
}

func (m *measurement) peers() []peer {
	endpoint := "http://" + m.addr(farHost, bucketPort)
	filled := func(ctx context.Context, mnt, prefix string) error {
		dir := m.path("small")
		if _, err := os.Stat(dir); err != nil {
			if err := smallFiles(dir, m.sizes.files); err != nil {
				return err
			}
		}
		return errors.Join(os.MkdirAll(mnt, 0o755), m.upload(ctx, dir, prefix))
	}
	redis := "redis://" + m.addr(ioHost, redisPort) + "/1"
	cache := func(n int) string { return m.path("juicefs", strconv.Itoa(n)) }
	juicefs := func(mnt string, n int) []string {
		return []string{"juicefs", "mount", "--writeback", "--no-usage-report", "--log", m.path("juicefs.log"), "--cache-dir", cache(n), redis, mnt}
	}
	return []peer{
		{name: "sshfs", program: "sshfs", remote: "ssh", prepare: func(_ context.Context, mnt string) ([]string, error) {
			far := m.path("far", "sshfs")
			return []string{"sshfs", "-f", "-o", "ssh_command=" + m.path("bin", "ssh"), "far:" + far, mnt}, errors.Join(os.MkdirAll(mnt, 0o755), smallFiles(far, m.sizes.files))
		}},
		{name: "s3fs", program: "s3fs", remote: "S3", prepare: func(ctx context.Context, mnt string) ([]string, error) {
			keys := m.path("s3fs-keys")
			return []string{"s3fs", "-f", bucketName + ":/s3fs", mnt, "-o", "url=" + endpoint, "-o", "use_path_request_style", "-o", "passwd_file=" + keys},
				errors.Join(os.WriteFile(keys, []byte(bucketKey+":"+bucketSecret), 0o600), filled(ctx, mnt, "s3fs/"))
		}},
		{name: "rclone mount, `--vfs-cache-mode full`", program: "rclone", remote: "S3", prepare: func(ctx context.Context, mnt string) ([]string, error) {
			return []string{"rclone", "mount", ":s3:" + bucketName + "/rclone", mnt, "--config", "/dev/null", "--s3-provider", "Other", "--s3-env-auth", "--s3-endpoint", endpoint, "--vfs-cache-mode", "full", "--cache-dir", m.path("rclone")},
				filled(ctx, mnt, "rclone/")
		}},
		{name: "JuiceFS, `--writeback`, redis", program: "juicefs", remote: "S3", prepare: func(ctx context.Context, mnt string) ([]string, error) {
			if _, err := exec.LookPath("redis-server"); err != nil {
				return nil, err
			}
			if err := errors.Join(os.MkdirAll(mnt, 0o755), m.startBucket(ctx), m.launch(ctx, ioHost, "redis-server", "--port", strconv.Itoa(redisPort), "--bind", "0.0.0.0", "--protected-mode", "no", "--dir", m.dir)); err != nil {
				return nil, err
			}
			_, err := m.until(ctx, func() (string, error) {
				return m.on(ctx, firstClient, "juicefs", "format", "--storage", "s3", "--bucket", endpoint+"/"+bucketName, "--access-key", bucketKey, "--secret-key", bucketSecret, redis, "bench")
			})
			return juicefs(mnt, 0), err
		}, again: func(ctx context.Context, mnt string) ([]string, error) {
			// The files come by another client, and are uploaded before they are read.
			first := m.path("mnt", "juicefs-fill")
			if err := errors.Join(os.MkdirAll(mnt, 0o755), os.MkdirAll(first, 0o755), smallFiles(m.path("juicefs-files"), m.sizes.files)); err != nil {
				return nil, err
			}
			return juicefs(mnt, 2), m.mounted(ctx, "juicefs-fill", juicefs(first, 1), func(mnt string) error {
				if _, err := m.on(ctx, firstClient, "cp", "-r", m.path("juicefs-files", "many"), mnt); err != nil {
					return err
				}
				return uploaded(ctx, cache(1))
			})
		}},
	}
}

const redisPort = 6379

// uploaded waits until nothing is staged any more in a cache of JuiceFS.
func uploaded(ctx context.Context, cache string) error {
	for deadline := time.Now().Add(20 * time.Minute); ; {
		staged := 0
		err := filepath.WalkDir(cache, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && strings.Contains(path, "/rawstaging/") {
				staged++
			}
			return nil // it was removed meanwhile
		})
		if err != nil || staged == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d blocks are not uploaded", staged)
		}
		if err := core.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}
