package devices

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// host makes a tree of files in place of a host's; no GPU is there to try.
func host(t *testing.T, files map[string]string) Host {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	testkit.SharedObject{Soname: "libcuda.so.1"}.Write(t, filepath.Join(root, "usr/lib/libcuda.so.535.104.05"))
	testkit.SharedObject{Soname: "libnvidia-ml.so.1"}.Write(t, filepath.Join(root, "usr/lib/libnvidia-ml.so.535.104.05"))
	return Host{Root: root, Libraries: func() ([]byte, error) {
		return []byte("\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/x/libcuda.so.1\n\tlibcuda.so.1 (libc6) => /usr/lib32/libcuda.so.1\n\tlibm.so.6 (libc6,x86-64) => /usr/lib/libm.so.6\n\tlibnvidia-ml.so.1 (libc6,AArch64) => /usr/lib/x/libnvidia-ml.so.1\n"), nil
	}}
}

// cdi is as `nvidia-ctk cdi generate` writes it.
const cdi = `cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits:
    deviceNodes: [{path: /dev/nvidia0}]
    hooks:
    - hookName: createContainer
      path: /usr/bin/nvidia-cdi-hook
      args: [nvidia-cdi-hook, create-symlinks, --link, ../card1::/dev/dri/by-path/pci-0000:01:00.0-card]
- name: "1"
  containerEdits:
    deviceNodes: [{path: /dev/nvidia1, hostPath: /dev/nvidia7}]
- name: GPU-955ef018-3bd9-5f27-80b3-fa20ee8d19c5
  containerEdits:
    deviceNodes: [{path: /dev/nvidia0}]
- name: all
  containerEdits:
    deviceNodes: [{path: /dev/nvidia0}, {path: /dev/nvidia1}]
containerEdits:
  env: [NVIDIA_VISIBLE_DEVICES=void]
  deviceNodes: [{path: /dev/nvidiactl}]
  hooks:
  - hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
    args: [nvidia-cdi-hook, create-symlinks, --link, libcuda.so.1::/lib/libcuda.so, --link, ../libnvidia-ml.so.1::/lib/gbm/drm.so]
  - hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
    args: [nvidia-cdi-hook, update-ldcache, --folder, /lib]
  mounts:
  - {hostPath: /usr/lib/libcuda.so.535.104.05, containerPath: /lib/libcuda.so.535.104.05, options: [ro, nosuid, nodev, bind]}
  - {hostPath: /usr/lib/libnvidia-ml.so.535.104.05, containerPath: /lib/libnvidia-ml.so.535.104.05, options: [ro, nosuid, nodev, bind]}
  - {hostPath: /usr/bin/nvidia-smi, containerPath: /usr/bin/nvidia-smi, options: [ro, nosuid, nodev, bind]}
`

func TestFind(t *testing.T) {
	nvidia := map[string]string{"dev/nvidia0": "", "dev/nvidia1": "", "dev/nvidiactl": "", "dev/nvidia-uvm": "", "usr/bin/nvidia-smi": ""}
	libraries := map[string]string{"/usr/lib/x/libcuda.so.1": "/usr/lib/x/libcuda.so.1", "/usr/lib/x/libnvidia-ml.so.1": "/usr/lib/x/libnvidia-ml.so.1", "/usr/bin/nvidia-smi": "/usr/bin/nvidia-smi"}
	cuda, ml := "/usr/lib/libcuda.so.535.104.05", "/usr/lib/libnvidia-ml.so.535.104.05"
	named := map[string]string{
		"/lib/libcuda.so.535.104.05": cuda, "/lib/libcuda.so.1": cuda, "/lib/libcuda.so": cuda,
		"/lib/libnvidia-ml.so.535.104.05": ml, "/lib/libnvidia-ml.so.1": ml, "/lib/gbm/drm.so": ml, "/usr/bin/nvidia-smi": "/usr/bin/nvidia-smi",
	}
	void := []string{"NVIDIA_VISIBLE_DEVICES=void"}
	for _, c := range []struct {
		name  string
		files map[string]string
		n     int
		want  Set
		fails bool
	}{
		{"none asked", nil, 0, Set{}, false},
		{"none there", nil, 1, Set{}, true},
		{"CDI, one", map[string]string{"etc/cdi/nvidia.yaml": cdi, "dev/nvidia0": ""}, 1, Set{Devices: []string{"/dev/nvidiactl", "/dev/nvidia0"}, Files: named, Env: void}, false},
		{"CDI, all", map[string]string{"var/run/cdi/nvidia.yaml": cdi}, All, Set{Devices: []string{"/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia7"}, Files: named, Env: void}, false},
		{"CDI, in both places", map[string]string{"etc/cdi/nvidia.yaml": cdi, "var/run/cdi/nvidia.yaml": cdi}, 2, Set{Devices: []string{"/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia7"}, Files: named, Env: append(void, void...)}, false},
		{"CDI, too many in both", map[string]string{"etc/cdi/nvidia.yaml": cdi, "var/run/cdi/nvidia.yaml": cdi}, 3, Set{}, true},
		{"CDI, too many", map[string]string{"etc/cdi/nvidia.yaml": cdi}, 3, Set{}, true},
		{"CDI, damaged", map[string]string{"etc/cdi/nvidia.json": "{"}, 1, Set{}, true},
		{"CDI of something else", map[string]string{"etc/cdi/nic.json": `{"kind":"v.com/net"}`}, 1, Set{}, true},
		{"device nodes, one", nvidia, 1, Set{Devices: []string{"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"}, Files: libraries, Env: void}, false},
		{"AMD", map[string]string{"dev/kfd": "", "dev/dri/renderD128": "", "dev/dri/renderD129": ""}, 1, Set{Devices: []string{"/dev/kfd", "/dev/dri/renderD128"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := host(t, c.files).Find(c.n)
			if c.fails {
				if err == nil || core.Remedy(err) == "" {
					t.Errorf("got %v, want a remedy", err)
				}
				if file := "etc/cdi/nvidia.json"; c.files[file] == "" {
					testkit.Wording(t, "error", testkit.ErrorText(err))
				} else if !strings.Contains(err.Error(), file) {
					t.Errorf("the damaged file is not named: %v", err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}
