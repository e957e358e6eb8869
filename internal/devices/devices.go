// Package devices finds what a container needs to use the host's GPUs: by CDI
// specifications where there are any, else device nodes and the driver's
// libraries. It only looks; mounting is the runtime's.
package devices

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/goccy/go-yaml"
)

// Set is what some GPUs need inside a container.
type Set struct {
	// Devices are device nodes on the host, under the same paths inside.
	Devices []string
	// Files are host paths by container path, all read-only.
	Files map[string]string
	// Env is what a specification wants in the environment. Ours say nothing
	// that a program needs, so that runtimes may leave it out.
	Env []string
}

// Host is where to look; the zero Host is this machine.
type Host struct {
	// Root is put before every path. For tests.
	Root string
	// Libraries gives the lines of `ldconfig -p`; nil asks ldconfig.
	Libraries func() ([]byte, error)
	// SMI is the program nvidia-smi; empty looks for it in PATH.
	SMI string
}

// All asks for every GPU there is.
const All = -1

// Find gives what n GPUs need. Unsupported where the host has fewer.
func (h Host) Find(n int) (Set, error) {
	if n == 0 {
		return Set{}, nil
	}
	for _, find := range []func(int) (Set, int, error){h.cdi, h.nvidia, h.amd} {
		set, have, err := find(n)
		if err != nil {
			return Set{}, err
		}
		if have > 0 && (n == All || have >= n) {
			return set, nil
		}
		if have > 0 {
			return Set{}, &core.Error{Kind: core.Unsupported, Op: "find GPUs", Err: fmt.Errorf("the job wants %d on each host, this one has %d", n, have), Remedy: "Lower `gpus:`, or choose another site."}
		}
	}
	return Set{}, &core.Error{
		Kind: core.Unsupported, Op: "find GPUs", Err: errors.New("this host has none that can be seen"),
		Remedy: "Choose another site, or have the administrator install the driver; `bee doctor` lists what was found.",
	}
}

// cdiSpec is the part of a CDI specification (cncf-tags/container-device-interface)
// that matters here.
type cdiSpec struct {
	Kind    string `yaml:"kind"`
	Devices []struct {
		Name  string   `yaml:"name"`
		Edits cdiEdits `yaml:"containerEdits"`
	} `yaml:"devices"`
	Edits cdiEdits `yaml:"containerEdits"`
}

type cdiEdits struct {
	Env         []string `yaml:"env"`
	DeviceNodes []struct {
		Path     string `yaml:"path"`
		HostPath string `yaml:"hostPath"`
	} `yaml:"deviceNodes"`
	Mounts []struct {
		HostPath      string `yaml:"hostPath"`
		ContainerPath string `yaml:"containerPath"`
	} `yaml:"mounts"`
	Hooks []struct {
		Args []string `yaml:"args"`
	} `yaml:"hooks"`
}

// cdi reads the host's CDI specifications of GPUs.
func (h Host) cdi(n int) (Set, int, error) {
	set := Set{Files: map[string]string{}}
	have := 0
	seen := map[string]bool{}
	var links []string
	for _, pattern := range []string{"/var/run/cdi/*", "/etc/cdi/*"} { // the first that has a device counts (CDI's SPEC.md)
		files, err := filepath.Glob(h.Root + pattern)
		if err != nil {
			return set, 0, err
		}
		for _, f := range files {
			raw, err := os.ReadFile(f)
			if err != nil {
				return set, 0, err
			}
			var s cdiSpec // JSON is YAML
			if err := yaml.Unmarshal(raw, &s); err != nil {
				return set, 0, &core.Error{Kind: core.Permanent, Op: "read CDI specification", Object: f, Err: err, Remedy: "Have the administrator write it again (`nvidia-ctk cdi generate`)."}
			}
			if !strings.HasSuffix(s.Kind, "/gpu") {
				continue
			}
			set.apply(s.Edits)
			links = append(links, s.Edits.links()...)
			for _, d := range s.Devices {
				if d.Name == "all" || strings.ContainsAny(d.Name, "-:") || seen[s.Kind+d.Name] { // other names of the same ones
					continue
				}
				seen[s.Kind+d.Name] = true
				if have++; n == All || have <= n {
					set.apply(d.Edits)
					links = append(links, d.Edits.links()...)
				}
			}
		}
	}
	h.name(set.Files, links)
	return set, have, nil
}

func (s *Set) apply(e cdiEdits) {
	s.Env = append(s.Env, e.Env...)
	for _, d := range e.DeviceNodes {
		path := d.HostPath
		if path == "" {
			path = d.Path
		}
		if !slices.Contains(s.Devices, path) {
			s.Devices = append(s.Devices, path)
		}
	}
	for _, m := range e.Mounts {
		s.Files[m.ContainerPath] = m.HostPath
	}
}

// links are those that hooks are to make in the container, each TARGET::PATH
// (nvidia-cdi-hook create-symlinks).
func (e cdiEdits) links() []string {
	var found []string
	for _, hook := range e.Hooks {
		for i, arg := range hook.Args {
			if arg == "--link" && i+1 < len(hook.Args) {
				found = append(found, hook.Args[i+1])
			}
		}
	}
	return found
}

// name gives the driver's libraries the names that programs ask for. A specification
// mounts them under the driver's version alone, and leaves the others to its hooks,
// which are programs of the host's for the runtimes that know them: libcuda.so.1 to
// ldconfig (update-ldcache), and libcuda.so to create-symlinks. Here each name is the
// library once more, as what is mounted is never a link.
func (h Host) name(files map[string]string, links []string) {
	for inside, path := range maps.Clone(files) {
		own := soname(h.Root + path)
		if inside = filepath.Join(filepath.Dir(inside), own); own != "" && files[inside] == "" {
			files[inside] = path
		}
	}
	for _, link := range links {
		target, inside, _ := strings.Cut(link, "::")
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(inside), target)
		}
		if path := files[target]; path != "" && inside != "" { // others are of what is not there
			files[inside] = path
		}
	}
}

// soname is a shared library's own name; empty: it has none, or is something else.
func soname(path string) string {
	if !strings.Contains(filepath.Base(path), ".so.") {
		return ""
	}
	f, err := elf.Open(path)
	if err != nil { // where it is needed, its mount says so
		return ""
	}
	defer f.Close()
	names, err := f.DynString(elf.DT_SONAME)
	if err != nil || len(names) == 0 {
		return ""
	}
	return names[0]
}

// nvidia finds NVIDIA's device nodes, and its driver's libraries in the
// linker's cache.
func (h Host) nvidia(n int) (Set, int, error) {
	cards, err := filepath.Glob(h.Root + "/dev/nvidia[0-9]*")
	if err != nil || len(cards) == 0 {
		return Set{}, 0, err
	}
	sort.Strings(cards)
	have := len(cards)
	if n != All {
		cards = cards[:min(n, have)]
	}
	set := Set{Files: map[string]string{}, Env: []string{"NVIDIA_VISIBLE_DEVICES=void"}}
	for _, path := range append(cards, h.Root+"/dev/nvidiactl", h.Root+"/dev/nvidia-uvm", h.Root+"/dev/nvidia-uvm-tools", h.Root+"/dev/nvidia-modeset") {
		if _, err := os.Stat(path); err == nil {
			set.Devices = append(set.Devices, strings.TrimPrefix(path, h.Root))
		}
	}
	libraries, err := h.libraries()
	if err != nil {
		return Set{}, 0, err
	}
	for _, l := range libraries {
		set.Files[l] = l
	}
	if smi := "/usr/bin/nvidia-smi"; exists(h.Root + smi) {
		set.Files[smi] = smi
	}
	return set, have, nil
}

// libraries gives the driver's own libraries: those that have to be of the
// version of the kernel module, and of 64 bits.
func (h Host) libraries() ([]string, error) {
	list := h.Libraries
	if list == nil {
		list = func() ([]byte, error) { return exec.Command("/sbin/ldconfig", "-p").Output() } //nolint:noctx // it waits for nothing
	}
	raw, err := list()
	if err != nil {
		return nil, fmt.Errorf("list the host's libraries: %w", err)
	}
	var found []string
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		name, path, ok := strings.Cut(strings.TrimSpace(lines.Text()), " => ")
		if ok && (strings.Contains(name, "x86-64") || strings.Contains(name, "AArch64")) && (strings.HasPrefix(name, "libcuda.so") || strings.HasPrefix(name, "libnvidia-") || strings.HasPrefix(name, "libnvcuvid.so")) {
			found = append(found, path)
		}
	}
	return found, nil
}

// amd finds AMD's device nodes; its libraries are in the images.
func (h Host) amd(n int) (Set, int, error) {
	if !exists(h.Root + "/dev/kfd") {
		return Set{}, 0, nil
	}
	cards, err := filepath.Glob(h.Root + "/dev/dri/renderD*")
	if err != nil {
		return Set{}, 0, err
	}
	have := len(cards)
	if n != All {
		cards = cards[:min(n, have)]
	}
	set := Set{Devices: []string{"/dev/kfd"}}
	for _, c := range cards {
		set.Devices = append(set.Devices, strings.TrimPrefix(c, h.Root))
	}
	return set, have, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
