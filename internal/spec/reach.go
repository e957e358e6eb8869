package spec

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Reach is one way in which a job uses what lies outside of its own directory on the
// machine that submits, or runs something there.
type Reach struct {
	// Key of the Beefile, such as secrets.TOKEN.exec.
	Key string `json:"key"`
	// Does is what the job does with What: runs, reads, writes to, sends, keeps checkpoints in.
	Does string `json:"does"`
	What string `json:"what"`
}

// String is the reach in one line.
func (r Reach) String() string { return fmt.Sprintf("%s %s %s", r.Key, r.Does, r.What) }

// Reaches lists the ways in which a complete job leaves a directory: that of its
// Beefile. A link that leads out of it, and a hidden name in it, count as outside.
func (j *Job) Reaches(dir string) []Reach {
	var list []Reach
	add := func(key, does, what string) { list = append(list, Reach{key, does, what}) }
	reads := func(key, path string) {
		if path != "" && Leaves(dir, path) {
			add(key, "reads", path)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(j.Secrets)) {
		s, key := j.Secrets[name], "secrets."+name
		if s.Exec != "" {
			add(key+".exec", "runs", s.Exec)
		}
		if s.Env != "" {
			add(key+".env", "sends the variable", s.Env)
		}
		reads(key+".file", s.File)
	}
	for i, in := range j.Inputs {
		key := fmt.Sprintf("inputs[%d].from", i)
		if in.Earlier != (RunPath{}) {
			add(key, "reads, in the volume of run "+in.Earlier.Run+",", in.Earlier.Path)
			continue
		}
		if IsRemote(in.From) {
			add(key, "fetches", in.From)
			continue
		}
		found, err := LocalMatches(in.From)
		if err != nil || len(found) == 0 {
			found = []string{in.From}
		}
		if at := slices.IndexFunc(found, func(p string) bool { return Leaves(dir, p) }); at >= 0 {
			add(key, "reads", found[at])
		}
	}
	for i, m := range j.Mounts {
		does := "reads, on the site,"
		if m.Write {
			does = "reads and changes, on the site,"
		}
		add(fmt.Sprintf("mounts[%d].from", i), does, m.From)
	}
	for i, out := range j.Outputs {
		if IsRemote(out.To) {
			add(fmt.Sprintf("outputs[%d].to", i), "sends to", out.To)
		} else if Leaves(dir, out.To) {
			add(fmt.Sprintf("outputs[%d].to", i), "writes to", out.To)
		}
	}
	list = append(list, notifyReaches(j.Notify)...)
	list = append(list, j.Build.Reaches(dir)...)
	reads("volume.from", j.Volume.From)
	list = append(list, imageReach("image", j.Dir, j.Image, dir)...)
	if j.VM != nil {
		list = append(list, imageReach("vm.image", j.Dir, j.VM.Image, dir)...)
		for i, d := range j.VM.Disks {
			if d.From != "" {
				add(fmt.Sprintf("vm.disks[%d].from", i), "reads, on each host,", d.From)
			}
		}
	}
	if s, err := ParseStore(j.Volume.Remote); j.Volume.Remote != "" && (err != nil || s.Dir == "" || s.Host != "" || Leaves(dir, s.Dir)) {
		add("volume.remote", "reads and writes to", j.Volume.Remote)
	}
	if j.SendsKeys() {
		add("volume.credentials", "sends, to the site's host, your credentials for", j.Volume.Remote)
	}
	if j.MayRelay() {
		add("volume.credentials", "has the site's host use, through this machine, your credentials for", j.Volume.Remote)
	}
	if s, err := ParseStore(j.Store); j.Store != "" && j.Store != StoreHome && (err != nil || s.Dir == "" || s.Host != "" || Leaves(dir, s.Dir)) {
		add("store", "keeps checkpoints in", j.Store)
	}
	return list
}

// Reaches lists what a build takes from outside of a directory.
func (b *Build) Reaches(dir string) []Reach {
	var list []Reach
	if b == nil {
		return nil
	}
	reads := func(key, path string) {
		if Leaves(dir, path) {
			list = append(list, Reach{key, "reads", path})
		}
	}
	if b.Context != "" {
		reads("build.context", b.Context)
		reads("build.dockerfile", b.DockerfileIn(b.Context))
		list = append(list, b.dockerfileReaches(dir)...)
	}
	for i, c := range b.Copy {
		reads(fmt.Sprintf("build.copy[%d].from", i), c.From)
	}
	if scheme, path, _ := strings.Cut(b.Mirror, ":"); scheme == "file" || scheme == "copy" {
		reads("build.mirror", "/"+strings.TrimLeft(path, "/"))
	}
	if b.Debian != "" && len(b.Run) > 0 && os.Geteuid() == 0 { // root leaves a chroot
		list = append(list, Reach{"build.run", "runs as root, in a chroot alone,", b.Run[0]})
	}
	return list
}

// imageReach lists an image that this machine has and no registry.
func imageReach(key, jobDir, ref, dir string) []Reach {
	scheme, _, _ := strings.Cut(ref, ":")
	if scheme == "docker-daemon" || scheme == "podman" {
		return []Reach{{key, "reads", ref}}
	}
	if !IsLocalImage(ref) {
		return nil
	}
	_, rest, _ := strings.Cut(ImageFrom(jobDir, ref), ":")
	if path, _ := SplitPath(rest); Leaves(dir, path) {
		return []Reach{{key, "reads", path}}
	}
	return nil
}

// Leaves reports whether a path lies outside of a directory, once links are followed.
// The user's home directory and what it is in is no one's own: all in it counts as
// outside.
func Leaves(dir, path string) bool { return OwnDir(dir).Leaves(path) }

// Own is a directory as Leaves knows it: links in its own path are followed once.
type Own struct {
	dir, real string
	everyones bool // the user's home directory is it, or in it
}

// OwnDir returns a directory that paths may leave.
func OwnDir(dir string) Own {
	o := Own{dir: filepath.Clean(dir), real: realPath(dir)}
	home, err := os.UserHomeDir()
	o.everyones = err == nil && inside(o.real, realPath(home))
	return o
}

// Leaves is Leaves of the directory.
func (o Own) Leaves(path string) bool {
	if o.everyones {
		return true
	}
	return o.leaves(path)
}

// OfOwn returns those of a job's reaches that count where the user wrote its Beefile: what
// is in the directory of that counts as its own, even where this is the home directory.
func OfOwn(dir string, list []Reach) []Reach {
	own := OwnDir(dir)
	return slices.DeleteFunc(list, func(r Reach) bool {
		return (r.Does == "reads" || r.Does == "writes to") && filepath.IsAbs(r.What) && !own.leaves(r.What)
	})
}

func (o Own) leaves(path string) bool {
	if !filepath.IsAbs(path) {
		path = filepath.Join(o.dir, path)
	}
	path = filepath.Clean(path)
	return !inside(o.dir, path) && !inside(o.real, path) || !inside(o.real, realPath(path))
}

// Inside reports whether a path is in a directory, which is given without links, once
// those in the path are followed. A hidden name in it counts as outside.
func Inside(real, path string) bool { return inside(real, realPath(path)) }

// inside reports whether a path is a directory or below it, by no hidden name.
func inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return false
	}
	if rel == "." {
		return true
	}
	return !slices.ContainsFunc(strings.Split(rel, "/"), func(name string) bool { return strings.HasPrefix(name, ".") })
}

// RealPath follows the links in a path, as far as that is there.
func RealPath(path string) string { return realPath(path) }

func realPath(path string) string {
	rest := ""
	for p := filepath.Clean(path); ; p = filepath.Dir(p) {
		if is, err := filepath.EvalSymlinks(p); err == nil {
			return filepath.Join(is, rest)
		}
		if target, err := os.Readlink(p); err == nil { // it leads to what is not there yet
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(p), target)
			}
			if rest == "" && target != p {
				return realParent(target)
			}
			return "/" // a directory that is no directory: nothing is inside of another one by it
		}
		if p == filepath.Dir(p) {
			return path
		}
		rest = filepath.Join(filepath.Base(p), rest)
	}
}

// realParent follows the links in the directory of a path that is not there.
func realParent(path string) string {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "/"
	}
	return filepath.Join(dir, filepath.Base(path))
}
