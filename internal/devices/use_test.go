package devices

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestWatchNVIDIA by a program in place of nvidia-smi: of the GPUs that a container has, and
// without what is no number.
func TestWatchNVIDIA(t *testing.T) {
	h := host(t, map[string]string{"dev/nvidia0": "", "dev/nvidia1": "", "dev/nvidia2": "", "dev/nvidiactl": "", "usr/bin/nvidia-smi": ""})
	h.SMI = filepath.Join(t.TempDir(), "nvidia-smi")
	script := "#!/bin/sh\ncase \"$*\" in *index,utilization.gpu,memory.used*) ;; *) exit 1;; esac\n" +
		"printf '0, 50, 1024\\n1, 100, 2048\\n2, 90, 4096\\n7, 1, 1\\n-1, 1, 1\\n0, [N/A], [N/A]\\n0, 500, 1\\n%s'\nexec sleep 100\n"
	if err := core.WriteProgram(h.SMI, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	w := h.Watch(t.Context(), 2)
	testkit.Eventually(t, 20*time.Second, func() error {
		if gpus, memory, known := w.Use(); !known || gpus != 1.5 || memory != 3<<30 {
			return errors.New("what two GPUs use is not known yet")
		}
		return nil
	})
	w.at = w.at.Add(-time.Hour)
	if _, _, known := w.Use(); known {
		t.Error("what was printed long ago is known")
	}
	w.read(strings.NewReader(strings.Repeat("9", 1<<20)), 2) // ends, whatever it prints
}

func TestWatchAMD(t *testing.T) {
	h := host(t, map[string]string{
		"dev/kfd": "", "dev/dri/renderD128": "", "dev/dri/renderD129": "",
		"sys/class/drm/renderD128/device/gpu_busy_percent": "25\n", "sys/class/drm/renderD128/device/mem_info_vram_used": "4096\n",
		"sys/class/drm/renderD129/device/gpu_busy_percent": "many\n", "sys/class/drm/renderD129/device/mem_info_vram_used": "4096\n",
	})
	if gpus, memory, known := h.Watch(t.Context(), All).Use(); !known || gpus != 0.25 || memory != 4096 {
		t.Errorf("%v GPUs, %v bytes, %v", gpus, memory, known)
	}
	if _, _, known := host(t, nil).Watch(t.Context(), 1).Use(); known {
		t.Error("what GPUs use is known of a host that has none")
	}
}
