package guest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/rdma"
	"github.com/bee-hpc/bee/internal/rpc"
)

// startRDMA makes the guest's RDMA device ready; over is the interface over which a software
// device reaches the others.
func startRDMA(c api.Config, over string) error {
	switch c.RDMA {
	case api.SoftRDMA:
		if err := command("modprobe", "-a", "rdma_rxe", "rdma_ucm"); err != nil {
			return fmt.Errorf("load the kernel's software device for RDMA: %w", err)
		}
		if err := command("rdma", "link", "add", rdma.SoftDevice, "type", "rxe", "netdev", over); err != nil {
			return fmt.Errorf("add the kernel's software device for RDMA: %w", err)
		}
		return awaitRDMA()
	case api.CardRDMA:
		if err := startCard(); err != nil {
			return fmt.Errorf("load the drivers of the card's function: %w", err)
		}
		if err := awaitRDMA(); err != nil {
			return fmt.Errorf("use the card's function, for which the guest image needs a driver: %w", err)
		}
	}
	return nil
}

// startCard loads the drivers of the card's function, as udev does elsewhere: first those of
// PCI, then those of what these have added.
func startCard() error {
	for _, bus := range []string{"pci", "auxiliary"} {
		files, err := filepath.Glob("/sys/bus/" + bus + "/devices/*/modalias")
		if err != nil {
			return err
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				continue // the device has gone
			}
			core.BestEffort(command("modprobe", "-q", strings.TrimSpace(string(raw)))) // most devices have their driver, or need none
		}
	}
	return command("modprobe", "-a", "ib_uverbs", "rdma_ucm")
}

// Times of awaitRDMA. A software device is usable at once; the port of a card comes up after
// its driver.
const (
	rdmaTimeout = 30 * time.Second
	rdmaPause   = 50 * time.Millisecond
)

// awaitRDMA returns when programs can use a device, or why they cannot.
func awaitRDMA() error {
	for begun := time.Now(); ; time.Sleep(rdmaPause) { // nothing reports when a port is up
		err := rdma.Unusable(rdma.Host{}.Look().Check(nil, true))
		if err == nil || time.Since(begun) > rdmaTimeout {
			return err
		}
	}
}

// rdmaNodes are the guest's device nodes for programs that use RDMA.
func rdmaNodes() []driver.Device { return driver.SameDevices(rdma.Host{}.Look().Paths()) }

// devices reports the RDMA devices of the container, once it has started.
func (h *containerAgent) devices(context.Context, rpc.Caller, rpc.None) (api.Devices, error) {
	h.mu.Lock()
	own := h.verbs != nil || h.pooled
	h.mu.Unlock()
	if own {
		return api.Devices{RDMA: []core.RDMADevice{rdma.OwnDevice()}}, nil
	}
	return api.Devices{RDMA: rdma.Host{}.Look().Report()}, nil
}
