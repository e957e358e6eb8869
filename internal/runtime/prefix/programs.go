package prefix

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
)

// A loader is a dynamic loader of the image, and what it understands: --argv0 is of
// glibc 2.33 and of musl, --inhibit-cache of glibc alone.
type loader struct {
	host            string
	argv0, uncached bool
}

// mostLoader bounds the size of a loader; glibc's has 0.2 MB, musl's 0.6.
const mostLoader = 16 << 20

func (p *Prefix) loader(inside string) (loader, error) {
	if l, is := p.loaders[inside]; is {
		return l, nil
	}
	host, info, err := p.in(inside)
	if err != nil {
		return loader{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > mostLoader {
		return loader{}, fmt.Errorf("%s is no loader", inside)
	}
	raw, err := os.ReadFile(host)
	if err != nil {
		return loader{}, err
	}
	l := loader{host, bytes.Contains(raw, []byte("--argv0")), bytes.Contains(raw, []byte("--inhibit-cache"))}
	p.loaders[inside] = l
	return l, nil
}

// wrapPrograms makes bin/. The first of a name counts, as in the PATH.
func (p *Prefix) wrapPrograms(dirs []string) error {
	count := 0
	for _, dir := range dirs {
		for _, e := range p.entries(dir) {
			to := filepath.Join(p.dir, "bin", e.name)
			if _, err := os.Lstat(to); err == nil {
				continue
			}
			host, kind, err := p.find(e)
			if err != nil || !kind.IsRegular() {
				continue
			}
			if info, err := os.Lstat(host); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
				continue
			}
			if count++; count > mostEntries {
				return fmt.Errorf("the image has more than %d programs", mostEntries)
			}
			if err := p.wrap(host, to, 0); err != nil {
				return fmt.Errorf("%s: %w", path.Join(dir, e.name), err)
			}
		}
	}
	return nil
}

// program returns what starts a program of the image by its path there. An error of kind
// fs.ErrNotExist says that the image has no such program.
func (p *Prefix) program(inside string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wrapped(path.Clean(inside), 0)
}

func (p *Prefix) wrapped(inside string, depth int) (string, error) {
	if to := p.more[inside]; to != "" {
		return to, nil
	}
	host, info, err := p.in(inside)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return host, nil // who starts it says what is wrong
	}
	dir := filepath.Join(p.dir, "more", strconv.Itoa(len(p.more)))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	to := filepath.Join(dir, path.Base(inside))
	p.more[inside] = to
	return to, p.wrap(host, to, depth)
}

// mostDepth of scripts whose interpreters are scripts; Linux allows 5.
const mostDepth = 5

// errDepth is of a script whose interpreter is a script, and so on.
var errDepth = errors.New("its interpreters are scripts of each other")

// wrap writes what starts a file of the image. A file that needs no loader is linked.
func (p *Prefix) wrap(host, to string, depth int) error {
	if depth > mostDepth {
		return errDepth
	}
	f, err := os.Open(host)
	if errors.Is(err, fs.ErrPermission) { // as it is for the programs of a container
		return placed(host, to)
	} else if err != nil {
		return err
	}
	defer f.Close()
	start := make([]byte, 512)
	n, _ := f.ReadAt(start, 0)
	start = start[:n]
	if line, is := bytes.CutPrefix(start, []byte("#!")); is {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		return p.wrapScript(string(line), host, to, depth)
	}
	if !bytes.HasPrefix(start, []byte(elf.ELFMAG)) {
		return placed(host, to)
	}
	e, err := elf.NewFile(f)
	if err != nil {
		return placed(host, to)
	}
	inside := interpreter(e)
	if inside == "" { // linked statically
		return placed(host, to)
	}
	l, err := p.loader(inside)
	if errors.Is(err, fs.ErrNotExist) { // it starts in no container either
		return placed(host, to)
	} else if err != nil {
		return err
	}
	words := []string{quote(l.host)}
	if l.uncached { // the cache is the host's
		words = append(words, "--inhibit-cache")
	}
	dirs := append(p.searchable(p.runPath(e, host)), filepath.Join(p.dir, "lib"))
	words = append(words, "--library-path", quote(strings.Join(dirs, ":")))
	if l.argv0 {
		words = append(words, "--argv0", `"$0"`)
	}
	return script(to, append(words, quote(host)))
}

func interpreter(e *elf.File) string {
	for _, s := range e.Progs {
		if s.Type != elf.PT_INTERP || s.Filesz == 0 || s.Filesz > 4096 {
			continue
		}
		raw := make([]byte, s.Filesz)
		if _, err := s.ReadAt(raw, 0); err == nil {
			return string(bytes.TrimRight(raw, "\x00"))
		}
	}
	return ""
}

// runPath are the directories of the image that a program's or library's own header names
// (DT_RUNPATH, DT_RPATH), by their paths there. The loader would search them on the host, and
// after the given ones.
func (p *Prefix) runPath(e *elf.File, host string) (dirs []string) {
	values, _ := e.DynString(elf.DT_RUNPATH)
	if len(values) == 0 {
		values, _ = e.DynString(elf.DT_RPATH)
	}
	origin := "/" + strings.TrimPrefix(strings.TrimPrefix(filepath.Dir(host), p.tree), "/")
	for _, v := range values {
		v = strings.NewReplacer("${ORIGIN}", origin, "$ORIGIN", origin).Replace(v)
		for _, dir := range filepath.SplitList(v) {
			if path.IsAbs(dir) {
				dirs = append(dirs, path.Clean(dir))
			}
		}
	}
	return dirs
}

// searchable are directories of the image where they are on the host.
func (p *Prefix) searchable(dirs []string) (at []string) {
	for _, dir := range dirs {
		if to, is := p.dirIn(dir); is && !strings.Contains(to, ":") {
			at = append(at, to)
		}
	}
	return at
}

// wrapScript starts a script with the image's own interpreter.
func (p *Prefix) wrapScript(line, host, to string, depth int) error {
	name, argument, _ := strings.Cut(strings.TrimSpace(line), " ")
	argument = strings.TrimSpace(argument)
	var words []string
	if path.Base(name) == "env" {
		argument = strings.TrimSpace(strings.TrimPrefix(argument, "-S"))
		for i, w := range strings.Fields(argument) {
			if i == 0 {
				w = filepath.Join(p.dir, "bin", w)
			}
			words = append(words, quote(w))
		}
	} else {
		with, err := p.wrapped(name, depth+1)
		if errors.Is(err, fs.ErrNotExist) {
			return placed(host, to)
		} else if err != nil {
			return err
		}
		words = []string{quote(with)}
		if argument != "" {
			words = append(words, quote(argument))
		}
	}
	return script(to, append(words, quote(host)))
}

// script writes a wrapper for the host's shell, which becomes the program.
func script(to string, words []string) error {
	return core.WriteProgram(to, []byte("#!/bin/sh\nexec "+strings.Join(words, " ")+` "$@"`+"\n"), 0o700)
}

// quote is a word for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
