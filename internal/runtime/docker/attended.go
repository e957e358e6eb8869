package docker

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/runtime/command"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
)

// creation is what the API wants to know of a container, as far as we have to say
// something.
type creation struct {
	Image, Hostname, User, WorkingDir string
	Entrypoint, Cmd, Env              []string
	Labels                            map[string]string
	Healthcheck                       struct{ Test []string }
	AttachStdout, AttachStderr        bool
	HostConfig                        struct {
		NetworkMode, IpcMode string
		PidsLimit            int
		LogConfig            struct{ Type string }
		SecurityOpt          []string
		CapDrop              []string
		CapAdd               []string `json:",omitempty"`
		Ulimits              []ulimit
		ExtraHosts           []string
		Devices              []device
		Mounts               []mount
		AutoRemove           bool
	}
}

type ulimit struct {
	Name       string
	Soft, Hard int64
}

type device struct{ PathOnHost, PathInContainer, CgroupPermissions string }

type mount struct {
	Type, Source, Target string
	ReadOnly             bool
}

// creation is what runCommand says to docker's command line, memlock in bytes.
func (r *Runtime) creation(s driver.ContainerSpec, h command.Host, memlock int64) creation {
	c := creation{
		Image: s.Image.ArchiveTag, Hostname: s.Hostname, User: user(s, h), WorkingDir: "/", Entrypoint: []string{command.InsideBinary}, Cmd: []string{pid1.Command}, Env: s.Env,
		Labels: map[string]string{command.Label: s.Owner.String()}, AttachStdout: true, AttachStderr: true,
	}
	c.Healthcheck.Test = []string{"NONE"}
	o := &c.HostConfig
	o.NetworkMode, o.IpcMode, o.PidsLimit, o.LogConfig.Type, o.AutoRemove = "host", "host", -1, "none", true
	filter := ""
	if !s.Seccomp { // the machine confines already, and a USER of the image takes a namespace
		filter = "unconfined"
	}
	o.SecurityOpt, o.ExtraHosts = command.SecurityOptions(filter), command.ExtraHosts(s.Hosts)
	if r.dropsAll(s) {
		o.CapDrop = []string{"ALL"}
	}
	if s.User != nil {
		c.Cmd = append(c.Cmd, pid1.As, pid1.IDs(s.User.UID, s.User.GID))
		if h.UID == 0 { // whose number can be mapped only with this, since Linux 5.12
			o.CapAdd = []string{"SETFCAP"}
		}
	}
	o.Ulimits = []ulimit{{"memlock", memlock, memlock}}
	for _, d := range h.Devices {
		o.Devices = append(o.Devices, device{d.Source, d.Target, "rwm"})
	}
	for _, m := range s.Mounts {
		o.Mounts = append(o.Mounts, mount{"bind", m.Source, m.Target, m.ReadOnly})
	}
	return c
}

// run creates and starts a container.
func (e *Engine) run(ctx context.Context, name string, c creation) (command.Program, error) {
	var made struct{ ID string }
	if err := e.call(ctx, http.MethodPost, "/containers/create?name="+name, c, &made); err != nil {
		if ctx.Err() != nil { // the daemon may have made it after all
			err = errors.Join(err, e.Remove(context.WithoutCancel(ctx), name))
		}
		return nil, err
	}
	own, end := context.WithCancel(context.WithoutCancel(ctx)) // it outlives the start
	defer context.AfterFunc(ctx, end)()
	a := &attended{ctx: own, end: end}
	if err := a.start(ctx, e, "/containers/"+made.ID); err != nil {
		end()
		return nil, errors.Join(err, e.Remove(context.WithoutCancel(ctx), made.ID))
	}
	return a, nil
}

// attended is a container that the daemon runs, as long as we are notified of it.
type attended struct {
	command.Tail

	ctx          context.Context // it ends when end is called
	end          context.CancelFunc
	words, ended io.ReadCloser
}

// start listens to a container, and starts it.
func (a *attended) start(ctx context.Context, e *Engine, path string) error {
	words, err := e.ask(a.ctx, http.MethodPost, path+"/attach?stream=1&stdout=1&stderr=1", nil, "Connection", "Upgrade", "Upgrade", "tcp")
	if err != nil {
		return err
	}
	a.words = words.Body
	context.AfterFunc(a.ctx, func() { a.words.Close() }) // the connection is ours now, of which net/http ends nothing
	// Asked for before the container starts: it removes itself.
	ended, err := e.ask(a.ctx, http.MethodPost, path+"/wait?condition=removed", nil)
	if err != nil {
		return err
	}
	a.ended = ended.Body
	return e.call(ctx, http.MethodPost, path+"/start", nil, nil)
}

// Wait implements command.Program.
func (a *attended) Wait() core.Exit {
	defer a.end()
	defer a.ended.Close()
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		core.BestEffort(unframe(&a.Tail, a.words)) // its end is the container's, or ours
	}()
	var exit struct {
		StatusCode int
		Error      *struct{ Message string }
	}
	switch err := json.NewDecoder(a.ended).Decode(&exit); {
	case err != nil:
		exit.StatusCode = lost
		if a.ctx.Err() == nil {
			core.BestEffort(fmt.Fprintln(&a.Tail, "docker tells no more of the container:", err)) // to memory
		}
		a.end() // nor do we listen any more
	case exit.Error != nil:
		core.BestEffort(fmt.Fprintln(&a.Tail, exit.Error.Message)) // to memory
	}
	<-heard
	return core.Exit{Code: exit.StatusCode}
}

// lost is the exit code of a container of which the daemon reports no more, as it
// is that of docker's command line.
const lost = 125

// Kill implements command.Program.
func (a *attended) Kill() { a.end() }

// unframe copies the output of a container without a terminal, whose pieces come
// each with a header of 8 bytes: which stream it is, and in the last four, how long.
func unframe(to io.Writer, from io.Reader) error {
	var header [8]byte
	for {
		if _, err := io.ReadFull(from, header[:]); err != nil {
			return err
		}
		if _, err := io.CopyN(to, from, int64(binary.BigEndian.Uint32(header[4:]))); err != nil {
			return err
		}
	}
}
