package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/s3client"
	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sync/errgroup"
)

// toolArg is the first argument that makes this program one of those that measure on the hosts and in
// containers. They print their results as JSON.
const toolArg = "tool"

func tool(args []string) error {
	if len(args) == 0 {
		return errors.New("no tool is named")
	}
	ctx := context.Background()
	name, args := args[0], args[1:]
	is := func(tool string, n int) bool { return name == tool && len(args) == n }
	number := func(i int) int { n, _ := strconv.Atoi(args[i]); return n } // 0 does nothing
	var result any
	var err error
	switch {
	case is("work", 2):
		result, err = work(ctx, args[0], number(1))
	case is("files", 3):
		result, err = manyFiles(args[0], number(1), time.Duration(number(2))*time.Second)
	case is("read", 3):
		result, err = readAll(args[0], number(1), time.Duration(number(2))*time.Second)
	case is("sync", 2):
		result, err = syncs(args[0], number(1))
	case is("rtt", 3):
		result, err = rtt(args[0], number(1), number(2))
	case is("echo", 1):
		return echo(args[0])
	case is("put", 2):
		return put(ctx, args[0], args[1])
	case is("loopback", 2):
		return loopback(args[0], args[1])
	default:
		err = fmt.Errorf("no such tool: %s %q", name, args)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// rates are of operations on small files, in a second.
type rates struct{ Create, Stat, Remove float64 }

// bounded does something with numbers up to n, for so long at most, and gives how many, and how many in a second.
func bounded(n int, limit time.Duration, do func(i int) error) (int, float64, error) {
	begun := time.Now()
	done := 0
	for done < n && (done == 0 || time.Since(begun) < limit) {
		if err := do(done); err != nil {
			return 0, 0, err
		}
		done++
	}
	return done, float64(done) / time.Since(begun).Seconds(), nil
}

const smallFile = 4 << 10

func small(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("f%05d", i)) }

// manyFiles makes, describes and removes small files. After a limit, the next operation has those that exist.
func manyFiles(dir string, n int, limit time.Duration) (r rates, err error) {
	content := make([]byte, smallFile)
	rand.Read(content)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return r, err
	}
	n, r.Create, err = bounded(n, limit, func(i int) error {
		f, err := os.OpenFile(small(dir, i), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = f.Write(content)
		return errors.Join(err, f.Close())
	})
	if err == nil {
		_, r.Stat, err = bounded(n, limit, func(i int) error { _, err := os.Stat(small(dir, i)); return err })
	}
	if err == nil {
		_, r.Remove, err = bounded(n, limit, func(i int) error { return os.Remove(small(dir, i)) })
	}
	return r, err
}

// readAll reads small files, and gives how many in a second.
func readAll(dir string, n int, limit time.Duration) (float64, error) {
	_, rate, err := bounded(n, limit, func(i int) error {
		raw, err := os.ReadFile(small(dir, i))
		if err == nil && len(raw) != smallFile {
			err = fmt.Errorf("%s has %d bytes", small(dir, i), len(raw))
		}
		return err
	})
	return rate, err
}

// syncs writes 4 KiB and syncs them so many times, and gives the median time.
func syncs(dir string, n int) (time.Duration, error) {
	f, err := os.CreateTemp(dir, "sync")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	p := make([]byte, smallFile)
	rand.Read(p)
	return median(n, func() error {
		_, err := f.Write(p)
		if err == nil {
			err = f.Sync()
		}
		return err
	})
}

func median(n int, do func() error) (time.Duration, error) {
	times := make([]time.Duration, 0, n)
	for range n {
		begun := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		times = append(times, time.Since(begun))
	}
	if n == 0 {
		return 0, errors.New("nothing was measured")
	}
	slices.Sort(times)
	return times[n/2], nil
}

// echo answers each connection with what it sends.
func echo(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			io.Copy(c, c)
		}()
	}
}

// rtt gives the median time in which so many bytes come back.
func rtt(address string, bytes, n int) (time.Duration, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	p := make([]byte, bytes)
	return median(n, func() error {
		_, err := c.Write(p)
		if err == nil {
			_, err = io.ReadFull(c, p)
		}
		return err
	})
}

// The bucket, and its credentials.
const (
	bucketPort   = 7480
	bucketName   = "data"
	bucketKey    = "bench-access"
	bucketSecret = "bench-secret"
)

// bucketEnv are the variables by which AWS's tools find the server.
func bucketEnv(endpoint string) []string {
	return []string{"AWS_ENDPOINT_URL=" + endpoint, "AWS_ACCESS_KEY_ID=" + bucketKey, "AWS_SECRET_ACCESS_KEY=" + bucketSecret, "AWS_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true"}
}

// put stores a file in the bucket by the SDK of AWS, or all that is in a directory; without a name it makes the bucket.
func put(ctx context.Context, name, key string) error {
	c, err := s3client.New(ctx, s3client.Settings{Bucket: bucketName})
	if err != nil {
		return err
	}
	if name == "" {
		_, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(bucketName)})
		return err
	}
	var g errgroup.Group
	g.SetLimit(8)
	err = filepath.WalkDir(name, func(path string, d iofs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		to := key
		if path != name {
			to = strings.TrimSuffix(key, "/") + strings.TrimPrefix(path, name)
		}
		g.Go(func() error {
			raw, err := os.ReadFile(path)
			if err == nil {
				_, err = c.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String(bucketName), Key: &to, Body: bytes.NewReader(raw)})
			}
			return err
		})
		return nil
	})
	return errors.Join(err, g.Wait())
}

// loopback serves a directory as go-fuse's example of that name does, until its host ends.
func loopback(dir, mount string) error {
	root, err := fs.NewLoopbackRoot(dir)
	if err != nil {
		return err
	}
	second := time.Second
	server, err := fs.Mount(mount, root, &fs.Options{AttrTimeout: &second, EntryTimeout: &second, NullPermissions: true, MountOptions: fuse.MountOptions{FsName: dir, Name: "loopback"}})
	if err != nil {
		return err
	}
	server.Wait()
	return nil
}

// noise fills a file with what nothing compresses.
func noise(name string, size int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, rand.Reader, size)
	return errors.Join(err, f.Close())
}

// meeting waits until all clients have reached a phase, and gives when the last one did.
func meeting(ctx context.Context, base string, client, of int) (last time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if err := os.WriteFile(base+"."+strconv.Itoa(client), nil, 0o644); err != nil {
		return last, err
	}
	for i := range of {
		for {
			info, err := os.Stat(base + "." + strconv.Itoa(i))
			if err == nil {
				if info.ModTime().After(last) {
					last = info.ModTime()
				}
				break
			}
			if err := core.Sleep(ctx, 5*time.Millisecond); err != nil {
				return last, err
			}
		}
	}
	return last, nil
}
