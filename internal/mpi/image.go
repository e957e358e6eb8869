package mpi

import (
	"bufio"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"
)

// image is an image's unpacked tree, looked at as a process inside would see it.
type image struct {
	root              string
	volume, volumeDir string
	workdir           string
	env               map[string]string
	elsewhere         []string
}

func newImage(in CheckInput) *image {
	i := &image{root: in.Root, volume: in.Volume, volumeDir: in.VolumeDir, workdir: in.Workdir, elsewhere: in.Elsewhere, env: map[string]string{}}
	for _, e := range in.Env {
		if key, value, ok := strings.Cut(e, "="); ok {
			i.env[key] = value
		}
	}
	return i
}

// host gives where a path inside is on the host, symbolic links followed
// within the image; "" when it is no file.
func (i *image) host(inside string) string {
	if !path.IsAbs(inside) {
		inside = path.Join(i.workdir, inside)
	}
	inside = path.Clean(inside)
	root := i.root
	if i.volume != "" && i.volumeDir != "" {
		if rest, ok := strings.CutPrefix(inside+"/", strings.TrimSuffix(i.volume, "/")+"/"); ok {
			root, inside = i.volumeDir, rest
		}
	}
	p, err := securejoin.SecureJoin(root, inside)
	if err != nil {
		return ""
	}
	if info, err := os.Stat(p); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return p
}

// real gives the path inside of what a path inside leads to.
func (i *image) real(inside string) string {
	p := i.host(inside)
	if rel, err := filepath.Rel(i.root, p); err == nil && filepath.IsLocal(rel) {
		return "/" + rel
	}
	return inside
}

// program finds a command as execvp does.
func (i *image) program(name string) (inside, host string) {
	if strings.Contains(name, "/") {
		return name, i.executable(name)
	}
	for _, dir := range strings.Split(i.env["PATH"], ":") {
		inside := path.Join(dir, name)
		if p := i.executable(inside); p != "" {
			return inside, p
		}
	}
	return "", ""
}

func (i *image) executable(inside string) string {
	p := i.host(inside)
	if p == "" {
		return ""
	}
	if info, err := os.Stat(p); err != nil || info.Mode()&0o111 == 0 {
		return ""
	}
	return p
}

// glob lists the paths inside that match, sorted. Links that lead out of the
// tree are not followed.
func (i *image) glob(pattern string) []string {
	found, err := filepath.Glob(filepath.Join(i.root, pattern))
	if err != nil {
		return nil
	}
	var list []string
	for _, p := range found {
		if rel, err := filepath.Rel(i.root, p); err == nil && i.host("/"+rel) != "" {
			list = append(list, "/"+rel)
		}
	}
	sort.Strings(list)
	return list
}

// libraryDirs are the directories where the image's dynamic linker looks
// besides a program's own, from /etc/ld.so.conf and its parts.
func (i *image) libraryDirs() []string {
	dirs := i.ldConf("/etc/ld.so.conf", &bounds{files: 1000, patterns: 50})
	dirs = append(dirs, "/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib")
	for _, triplet := range []string{"x86_64-linux-gnu", "aarch64-linux-gnu"} {
		dirs = append(dirs, "/lib/"+triplet, "/usr/lib/"+triplet)
	}
	return dirs
}

// bounds are what is looked at yet of configuration whose parts include others, maybe
// themselves: many more than any image has.
type bounds struct{ files, patterns int }

func (i *image) ldConf(file string, left *bounds) []string {
	p := i.host(file)
	if left.files--; p == "" || left.files < 0 {
		return nil
	}
	f, err := os.Open(p)
	if err != nil {
		return nil
	}
	defer f.Close()
	var dirs []string
	lines := bufio.NewScanner(f)
	for lines.Scan() && left.patterns > 0 {
		line, _, _ := strings.Cut(lines.Text(), "#")
		line = strings.TrimSpace(line)
		if pattern, ok := strings.CutPrefix(line, "include"); ok && strings.TrimLeft(pattern, " \t") != pattern {
			pattern = strings.TrimSpace(pattern)
			if !path.IsAbs(pattern) {
				pattern = path.Join(path.Dir(file), pattern)
			}
			left.patterns--
			for _, part := range i.glob(pattern) {
				dirs = append(dirs, i.ldConf(part, left)...)
			}
		} else if path.IsAbs(line) {
			dirs = append(dirs, line)
		}
	}
	return dirs
}
