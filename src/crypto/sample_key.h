// For tests: keys that no signer should have.
#pragma once

namespace cairn::crypto {

inline constexpr const char* sample_unusable_keys[] = {
    // Of small order: 1, 4, 8, 8, 2.
    "0100000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    // Spelled above the field's prime: 1, and 3, which is a point.
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "f0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    // Not on the curve.
    "0200000000000000000000000000000000000000000000000000000000000000",
    // The base point and the point of order 2 together.
    "9599999999999999999999999999999999999999999999999999999999999999",
};

}  // namespace cairn::crypto
