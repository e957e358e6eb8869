package build

import (
	_ "embed"
	"strings"
)

// MachineUser is the account of guests that a cloud's machine boots, which may use docker.
const MachineUser = "bee"

// machinePackages are those that a guest needs which no host prepares: the network's
// configuration, what start scripts use, maps of ids, and a clock that is set.
func machinePackages() []string {
	return []string{"isc-dhcp-client", "curl", "uidmap", "chrony"}
}

// machine makes the programs by which people and scripts end such a guest.
//
//go:embed machine.sh
var machine string

// emulatedDrivers are modules of hardware that QEMU emulates, below the directory of modules.
const emulatedDrivers = `block/t10-pi drivers/scsi/scsi_common drivers/scsi/scsi_mod drivers/scsi/sd_mod drivers/ata/libata drivers/ata/libahci \
  drivers/ata/ahci drivers/net/ethernet/intel/e1000/e1000`

// cloudDrivers are those of machines of clouds, beside virtio's and Mellanox' that each guest has: disks and network
// cards of EC2's Nitro machines, disks of SCSI, and drives with a configuration.
const cloudDrivers = `drivers/nvme/common/nvme-common drivers/nvme/host/nvme-core drivers/nvme/host/nvme drivers/net/ethernet/amazon/ena/ena \
  drivers/scsi/virtio_scsi drivers/scsi/sr_mod drivers/ata/ata_piix drivers/net/ethernet/intel/e1000e/e1000e drivers/acpi/button drivers/input/evdev`

// copyDrivers is the part of a build that copies modules of the kernel.
func copyDrivers(modules string) string {
	return strings.Replace(`for m in @MODULES@; do
  for file in "$from/kernel/$m".ko*; do
    [ -e "$file" ] || continue
    mkdir -p "$to/kernel/${m%/*}" && cp "$file" "$to/kernel/${m%/*}/"
  done
done
`, "@MODULES@", modules, 1)
}
