// Intrusive doubly linked list: joining and leaving never allocate and never fail.
#pragma once

#include "base/check.h"

namespace cairn {

struct Link {
  Link* prev = this;
  Link* next = this;

  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  bool linked() const noexcept { return next != this; }
  void unlink() noexcept {
    prev->next = next;
    next->prev = prev;
    prev = next = this;
  }
};

// T derives from Link (possibly through an intermediate base named by Node).
template <class T, class Node = Link>
class List {
 public:
  List() = default;
  ~List() { CHECK(empty()); }
  List(const List&) = delete;
  List& operator=(const List&) = delete;

  bool empty() const noexcept { return !head_.linked(); }
  T& front() noexcept { return cast(head_.next); }
  void push_back(T& item) noexcept {
    Link& link = static_cast<Node&>(item);
    CHECK(!link.linked());
    link.prev = head_.prev;
    link.next = &head_;
    head_.prev->next = &link;
    head_.prev = &link;
  }
  void push_front(T& item) noexcept {
    Link& link = static_cast<Node&>(item);
    CHECK(!link.linked());
    link.prev = &head_;
    link.next = head_.next;
    head_.next->prev = &link;
    head_.next = &link;
  }
  T& pop_front() noexcept {
    T& item = front();
    static_cast<Node&>(item).unlink();
    return item;
  }
  // `visit` may unlink the item it is given, and only that one.
  template <class F>
  void for_each(F visit) {
    for (Link* at = head_.next; at != &head_;) {
      Link* following = at->next;
      visit(cast(at));
      at = following;
    }
  }
  void take_all(List& other) noexcept {
    while (!other.empty()) push_back(other.pop_front());
  }

 private:
  static T& cast(Link* link) noexcept { return static_cast<T&>(static_cast<Node&>(*link)); }
  Link head_;
};

}  // namespace cairn
