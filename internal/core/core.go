// Package core holds the words that all of BEE shares: hosts, owners, handles,
// image configurations and error kinds. It is pure data: it imports the
// standard library only, and knows of no driver, file format or command line.
package core

import (
	"encoding/json"
	"fmt"
	"path"
	"time"
)

// Host is a machine, or something that behaves like one, on which a lease lets
// us run commands. The zero Index is the head's host.
type Host struct {
	// Index is the host's place in its lease, from 0.
	Index int `json:"index"`
	// Name is what people and host files call it; unique in its lease.
	Name string `json:"name"`
	// Addrs are IP addresses (no port) by which other hosts of the lease may
	// reach it, best first. Empty: the node reports them when it joins.
	Addrs []string `json:"addrs,omitempty"`
	// Slots is the number of cores the lease gives on this host, at least 1.
	Slots int `json:"slots"`
	// Arch is the GOARCH of the host.
	Arch string `json:"arch,omitempty"`
	// Dir is the absolute path, on this host, of the run's own directory
	// (<scratch>/bee/<run>). Everything BEE leaves on a host is in it.
	Dir string `json:"dir"`
	// Cache is the absolute path, on this host, of BEE's image cache.
	Cache string `json:"cache"`
	// Spot means that a cloud rents it out only until it takes it back.
	Spot bool `json:"spot,omitempty"`
	// Placement is how a cloud has placed it beside the others: cluster or spread; none: it could not, as the site wants
	// it. "": the site does not want any.
	Placement string `json:"placement,omitempty"`
}

// Owner marks who and what an external thing (lease, container, network)
// belongs to. Every thing that BEE creates outside its own files carries one,
// so that a sweep can distinguish an orphan from a stranger's property.
type Owner struct {
	// User is the id of the installation (state directory) that made it.
	User string `json:"user"`
	// Run is the run's id; empty in a query means any run.
	Run string `json:"run,omitempty"`
	// Attempt counts from 1; 0 in a query means any attempt.
	Attempt int `json:"attempt,omitempty"`
}

// Matches reports whether a thing that carries o answers the query q.
func (o Owner) Matches(q Owner) bool {
	return o.User == q.User &&
		(q.Run == "" || o.Run == q.Run) &&
		(q.Attempt == 0 || o.Attempt == q.Attempt)
}

// Complete reports whether o is one attempt, as the owner of a thing is.
func (o Owner) Complete() bool { return o.User != "" && o.Run != "" && o.Attempt > 0 }

// String is the owner as a tag: user/run/attempt.
func (o Owner) String() string { return fmt.Sprintf("%s/%s/%d", o.User, o.Run, o.Attempt) }

// Handle is the persistable form of a live object. Only the driver that made
// it reads Data; everyone else stores it as it is.
type Handle struct {
	// Driver is the Info().Name of the driver that made the handle.
	Driver string `json:"driver"`
	// Version is the driver's own version of Data.
	Version int `json:"version"`
	// Owner is what the object belongs to.
	Owner Owner `json:"owner"`
	// Data is the driver's own record.
	Data json.RawMessage `json:"data,omitempty"`
}

// ImageConfig is the part of an OCI image configuration that decides how a
// container of it runs.
type ImageConfig struct {
	Env        []string          `json:"env,omitempty"`
	Entrypoint []string          `json:"entrypoint,omitempty"`
	Cmd        []string          `json:"cmd,omitempty"`
	WorkingDir string            `json:"working_dir,omitempty"`
	User       string            `json:"user,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	StopSignal string            `json:"stop_signal,omitempty"`
	// Volumes are directories that a container has whether a layer has them or not.
	Volumes []string `json:"volumes,omitempty"`
}

// Workdir returns the working directory of a job's commands: the job's own, or else the
// image's. Where both are empty, or the image's is /, it is the volume, so that files with
// relative names are in it.
func (c ImageConfig) Workdir(own, volume string) string {
	if own != "" {
		return path.Join("/", own)
	}
	if of := path.Join("/", c.WorkingDir); of != "/" { // some tools write it without the slash
		return of
	}
	return path.Join("/", volume)
}

// Account is whom processes are: a line of /etc/passwd.
type Account struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
	// Name is empty where the number has none.
	Name string `json:"name,omitempty"`
	// Home is the home directory.
	Home string `json:"home,omitempty"`
}

// Image is a resolved image: what it is, and how it runs.
type Image struct {
	// ID is the digest of the image's manifest, "sha256:…". Two references
	// with one ID are the same image.
	ID string `json:"id"`
	// Ref is what the user called it; for messages only.
	Ref string `json:"ref"`
	// OS and Arch are those of the chosen platform (GOARCH names).
	OS   string `json:"os"`
	Arch string `json:"arch"`
	// Config is the image's run configuration.
	Config ImageConfig `json:"config"`
	// Size is the flattened content in bytes, for planning and progress.
	Size int64 `json:"size"`
}

// Exit is how a process ended.
type Exit struct {
	// Code is the exit status, or 128+signal when a signal ended it.
	Code int `json:"code"`
	// Signal is the number of the signal that ended it, else 0.
	Signal int `json:"signal,omitempty"`
	// UserTime and SystemTime are CPU time of the process and its reaped children.
	UserTime   time.Duration `json:"user_time,omitempty"`
	SystemTime time.Duration `json:"system_time,omitempty"`
	// MaxRSS is the largest resident set of one process among them, in bytes.
	MaxRSS int64 `json:"max_rss,omitempty"`
}

// Check reports values that no process ends with.
func (e Exit) Check() error {
	const lastCode, lastSignal = 255, 64
	if e.Code < 0 || e.Code > lastCode || e.Signal < 0 || e.Signal > lastSignal || e.UserTime < 0 || e.SystemTime < 0 || e.MaxRSS < 0 {
		return &Error{Kind: Invalid, Op: "check how a process ended", Err: fmt.Errorf("no process ends like this: %+v", e), Remedy: RemedyVersions}
	}
	return nil
}
