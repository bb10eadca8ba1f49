# SPDX-License-Identifier: Apache-2.0
# A share whose clients are named, and one at an address in a network of its own with the directory of its users. Who
# asks and where stands in clouds.yaml: OS_CLOUD names the entry. It runs in Terraform and in OpenTofu.
terraform {
  required_providers {
    openstack = {
      source  = "terraform-provider-openstack/openstack"
      version = "~> 3.4"
    }
  }
}

variable "size" {
  description = "Of both shares, in GiB; they grow and shrink in place"
  type        = number
  default     = 1
}

variable "clients" {
  description = "Who may mount the notes: address and level"
  type        = map(string)
  default     = { "10.9.8.0/24" = "rw", "10.9.7.7" = "ro" }
}

variable "snapshot" {
  description = "The snapshot of which a share is made, by name"
  type        = string
  default     = ""
}

# A share of the default type

resource "openstack_sharedfilesystem_share_v2" "notes" {
  name        = "notes"
  description = "Kept by Terraform"
  share_proto = "NFS"
  size        = var.size
  metadata    = { team = "red" }
}

resource "openstack_sharedfilesystem_share_access_v2" "clients" {
  for_each     = var.clients
  share_id     = openstack_sharedfilesystem_share_v2.notes.id
  access_type  = "ip"
  access_to    = each.key
  access_level = each.value
}

# A share of a type that makes share servers, here `tenant`, in a network of Neutron. Where there is no Neutron, the
# two ids are those that the operator has given to a declared network.

resource "openstack_networking_network_v2" "blue" {
  name = "blue"
}

resource "openstack_networking_subnet_v2" "blue" {
  network_id = openstack_networking_network_v2.blue.id
  cidr       = "10.30.0.0/24"
}

resource "openstack_sharedfilesystem_securityservice_v2" "people" {
  name   = "people"
  type   = "ldap"
  server = "ldap.example"
  dns_ip = "10.30.0.5"
  domain = "people.example"
}

resource "openstack_sharedfilesystem_sharenetwork_v2" "blue" {
  name                 = "blue"
  neutron_net_id       = openstack_networking_network_v2.blue.id
  neutron_subnet_id    = openstack_networking_subnet_v2.blue.id
  security_service_ids = [openstack_sharedfilesystem_securityservice_v2.people.id]
}

resource "openstack_sharedfilesystem_share_v2" "data" {
  name             = "data"
  share_proto      = "NFS"
  share_type       = "tenant"
  share_network_id = openstack_sharedfilesystem_sharenetwork_v2.blue.id
  size             = var.size
}

resource "openstack_sharedfilesystem_share_access_v2" "data" {
  share_id     = openstack_sharedfilesystem_share_v2.data.id
  access_type  = "ip"
  access_to    = openstack_networking_subnet_v2.blue.cidr
  access_level = "rw"
}

# The provider makes no snapshots; one that is there is looked up by its name, and a share made of it.

data "openstack_sharedfilesystem_snapshot_v2" "wanted" {
  count = var.snapshot == "" ? 0 : 1
  name  = var.snapshot
}

resource "openstack_sharedfilesystem_share_v2" "again" {
  count       = length(data.openstack_sharedfilesystem_snapshot_v2.wanted)
  name        = "notes-again"
  share_proto = "NFS"
  snapshot_id = data.openstack_sharedfilesystem_snapshot_v2.wanted[0].id
  size        = data.openstack_sharedfilesystem_snapshot_v2.wanted[0].size
}

# What others may read of it

data "openstack_sharedfilesystem_availability_zones_v2" "all" {}

data "openstack_sharedfilesystem_share_v2" "notes" {
  name = openstack_sharedfilesystem_share_v2.notes.name
}

data "openstack_sharedfilesystem_sharenetwork_v2" "blue" {
  name = openstack_sharedfilesystem_sharenetwork_v2.blue.name
}

output "notes" {
  value = data.openstack_sharedfilesystem_share_v2.notes.export_locations[*].path
}

output "data" {
  value = openstack_sharedfilesystem_share_v2.data.export_locations[*].path
}

output "zones" {
  value = data.openstack_sharedfilesystem_availability_zones_v2.all.names
}

output "directories" {
  value = data.openstack_sharedfilesystem_sharenetwork_v2.blue.security_service_ids
}
