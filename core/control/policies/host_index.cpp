#include "control/policies/host_index.hpp"

#include "kernel/draw.hpp"

namespace twinloop {

HostIndex::HostIndex(std::size_t machines, bool most_room_first)
    : most_room_first_(most_room_first) {
    resize(machines);
}

void HostIndex::resize(std::size_t machines) {
    const std::size_t before = nodes_.size();
    nodes_.resize(machines);
    if (machines > 0) classes_.resize(class_count);
    // Ranks have to look random and to be the same in every run.
    for (std::size_t m = before; m < machines; ++m)
        nodes_[m].rank = static_cast<std::uint32_t>(Draw(m).next() >> 32);
}

void HostIndex::put(MachineId machine, double key, const Room& room) {
    Node& node = nodes_[machine];
    const std::size_t kind = class_of(room.cores);
    if (node.kind == kind && node.key == key && node.room == room) return;
    remove(machine);
    node.key = key;
    node.room = room;
    node.kind = static_cast<std::uint16_t>(kind);
    Class& mine = classes_[kind];
    insert(mine.root, machine);
    if (place(machine).before(mine.front)) mine.front = place(machine);
    filled_[kind / 64] |= std::uint64_t{1} << (kind % 64);
}

void HostIndex::remove(MachineId machine) {
    Node& node = nodes_[machine];
    const std::size_t kind = node.kind;
    if (kind == class_count) return;
    Class& mine = classes_[kind];
    mine.root = erase(mine.root, machine);
    node.kind = class_count;
    if (mine.root == no_machine) {
        mine.front = nowhere;
        filled_[kind / 64] &= ~(std::uint64_t{1} << (kind % 64));
    } else if (mine.front.machine == machine) {
        MachineId first = mine.root;
        while (nodes_[first].left != no_machine) first = nodes_[first].left;
        mine.front = place(first);
    }
}

void HostIndex::insert(MachineId& root, MachineId machine) {
    Node& node = nodes_[machine];
    MachineId* link = &root;
    while (*link != no_machine && nodes_[*link].rank >= node.rank) {
        Node& above = nodes_[*link];
        above.most.cores = std::max(above.most.cores, node.room.cores);
        above.most.memory = std::max(above.most.memory, node.room.memory);
        link = place(machine).before(place(*link)) ? &above.left : &above.right;
    }
    split(*link, place(machine), node.left, node.right);
    sum_up(machine);
    *link = machine;
}

MachineId HostIndex::erase(MachineId root, MachineId machine) {
    if (root == machine) return merge(nodes_[root].left, nodes_[root].right);
    const bool left = place(machine).before(place(root));
    MachineId& below = left ? nodes_[root].left : nodes_[root].right;
    below = erase(below, machine);
    sum_up(root);
    return root;
}

void HostIndex::split(MachineId root, const Place& at, MachineId& left, MachineId& right) {
    if (root == no_machine) {
        left = right = no_machine;
        return;
    }
    Node& node = nodes_[root];
    if (place(root).before(at)) {
        left = root;
        split(node.right, at, node.right, right);
    } else {
        right = root;
        split(node.left, at, left, node.left);
    }
    sum_up(root);
}

MachineId HostIndex::merge(MachineId left, MachineId right) {
    if (left == no_machine) return right;
    if (right == no_machine) return left;
    const bool left_above = nodes_[left].rank >= nodes_[right].rank;
    const MachineId root = left_above ? left : right;
    if (left_above) nodes_[left].right = merge(nodes_[left].right, right);
    else nodes_[right].left = merge(left, nodes_[right].left);
    sum_up(root);
    return root;
}

void HostIndex::sum_up(MachineId machine) {
    Node& node = nodes_[machine];
    node.most = node.room;
    for (const MachineId below : {node.left, node.right}) {
        if (below == no_machine) continue;
        const Room& theirs = nodes_[below].most;
        node.most.cores = std::max(node.most.cores, theirs.cores);
        node.most.memory = std::max(node.most.memory, theirs.memory);
    }
}

}  // namespace twinloop
