// The notation of shapes in the declaration of an operator, parsed while it is compiled. A shape is
// a list of sizes: "T1, N1 = head_num > 0, D > 0". A size is a name, a number or an expression of
// them ("3 * N1", "D + Dv", "N / N2"); backquotes make a name of any text ("`sets * N2`"). A name
// is one size in all shapes of an operator: that of the attribute of this name, or of the first
// input that has it. Marks follow a size:
//   ?           this input is not compared there, and messages show "?" as the expected size
//   = head_num  this attribute is the size, and the message names it where the input differs
//   > 0         the size must not be 0
// Messages show "attention_out: T1, N1, Dv" by its label, "attention_out". Words from "with" or
// "without" on end a shape and stay in messages. "|" separates the shapes of several layouts. Plain
// enough for the kernels' units.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace nsa {

// One step of an expression in postfix order. `value` is the place of a name, or a number.
struct ShapeStep {
  enum Code : int16_t { kName, kNumber, kAdd, kMultiply, kDivide };
  Code code;
  int16_t value;
};

struct ShapeAxis {
  uint8_t first_step, steps;
  uint8_t begin, length;      // of its text without the marks
  bool free, said, positive;  // by the marks ?, = and > 0
};

struct Shape {
  std::string_view text;
  uint8_t first_axis, rank;
  uint8_t label;   // the length of what messages show in place of the sizes; 0: none
  uint8_t suffix;  // where "with layout 'TND'" begins; the end of the text if nowhere
};

// The shapes of one tensor, one for each layout; none where the rules say it.
struct ShapeForms {
  uint8_t first = 0, count = 0;
};

// A name of sizes, and the attribute that a mark says it by; empty if none.
struct SizeName {
  std::string_view name, attr;
};

inline constexpr size_t kMostSizes = 24;

// Not constexpr: a declaration that comes here does not compile, and the compiler shows the call.
// The kernels' units have no exceptions.
inline void wrong_shape(const char*) {}

class ShapeTable {
 public:
  const Shape& shape(size_t place) const { return shapes_[place]; }
  const ShapeAxis& axis(const Shape& shape, size_t axis) const {
    return axes_[shape.first_axis + axis];
  }
  const ShapeStep& step(const ShapeAxis& axis, size_t step) const {
    return steps_[axis.first_step + step];
  }
  constexpr size_t names() const { return name_count_; }
  const SizeName& name(size_t place) const { return names_[place]; }
  // The number of names if none is `name`.
  constexpr size_t place_of(std::string_view name) const {
    size_t place = 0;
    while (place < name_count_ && names_[place].name != name) ++place;
    return place;
  }

  constexpr size_t at(std::string_view name) const {
    const size_t place = place_of(name);
    if (place == name_count_) wrong_shape("no shape has this size");
    return place;
  }

  constexpr ShapeForms parse(std::string_view text) {
    if (text.empty()) return {};
    for (size_t i = 0; i < form_count_; ++i) {
      if (text == parsed_[i].text) return parsed_[i].forms;
    }
    ShapeForms forms{static_cast<uint8_t>(shape_count_), 0};
    std::string_view rest = text;
    for (;;) {
      const size_t bar = rest.find('|');
      parse_shape(trimmed(rest.substr(0, bar)));
      ++forms.count;
      if (bar == std::string_view::npos) break;
      rest = rest.substr(bar + 1);
    }
    parsed_[form_count_++] = {text, forms};
    return forms;
  }

 private:
  // Reads the text of one shape from left to right.
  struct Reader {
    std::string_view text;
    size_t at = 0;

    constexpr void skip() {
      while (at < text.size() && text[at] == ' ') ++at;
    }
    constexpr bool accept(char c) {
      skip();
      if (at == text.size() || text[at] != c) return false;
      ++at;
      return true;
    }
    constexpr char next() {
      skip();
      return at < text.size() ? text[at] : '\0';
    }
    // Words with single spaces between them: "pages of a row".
    constexpr std::string_view words() {
      skip();
      const size_t begin = at;
      while (at < text.size() && is_word(text[at])) ++at;
      while (at + 1 < text.size() && text[at] == ' ' && is_letter(text[at + 1]) && !ends()) {
        ++at;
        while (at < text.size() && is_word(text[at])) ++at;
      }
      if (at == begin) wrong_shape("a shape must have a name or a number here");
      return text.substr(begin, at - begin);
    }
    constexpr std::string_view quoted() {
      const size_t begin = at;
      while (at < text.size() && text[at] != '`') ++at;
      if (at == text.size()) wrong_shape("a quoted name must be closed");
      return text.substr(begin, at++ - begin);
    }
    // True where the words begin that end a shape.
    constexpr bool ends() const {
      size_t begin = at;
      while (begin < text.size() && text[begin] == ' ') ++begin;
      return text.substr(begin, 4) == "with";
    }
  };

  static constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static constexpr bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  }
  static constexpr bool is_word(char c) {
    return is_letter(c) || is_digit(c) || c == '_' || c == '\'';
  }
  static constexpr std::string_view trimmed(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
  }

  constexpr void parse_shape(std::string_view text) {
    Reader reader{text};
    Shape& shape = shapes_[shape_count_++];
    shape.text = text;
    shape.first_axis = static_cast<uint8_t>(axis_count_);
    const size_t colon = text.find(':');
    if (colon != std::string_view::npos) {
      shape.label = static_cast<uint8_t>(colon);
      reader.at = colon + 1;
    }
    do {
      parse_axis(reader);
      ++shape.rank;
    } while (reader.accept(','));
    shape.suffix = static_cast<uint8_t>(text.size());
    if (reader.next() == '\0') return;
    if (!reader.ends()) wrong_shape("a comma, an operator or a mark must follow a size");
    shape.suffix = static_cast<uint8_t>(reader.at);
  }

  constexpr void parse_axis(Reader& reader) {
    ShapeAxis& axis = axes_[axis_count_++];
    reader.skip();
    axis.first_step = static_cast<uint8_t>(step_count_);
    axis.begin = static_cast<uint8_t>(reader.at);
    parse_sum(reader);
    axis.steps = static_cast<uint8_t>(step_count_ - axis.first_step);
    const std::string_view expression = reader.text.substr(axis.begin, reader.at - axis.begin);
    axis.length = static_cast<uint8_t>(trimmed(expression).size());
    if (expression.front() == '`') {
      ++axis.begin;
      axis.length = static_cast<uint8_t>(axis.length - 2);
    }
    axis.free = reader.accept('?');
    if (reader.accept('=')) {
      if (axis.steps != 1) wrong_shape("an attribute says a name, not an expression");
      names_[steps_[axis.first_step].value].attr = reader.words();
      axis.said = true;
    }
    if (reader.accept('>')) {
      if (!reader.accept('0')) wrong_shape("a size can be > 0 only");
      axis.positive = true;
    }
  }

  constexpr void parse_sum(Reader& reader) {
    parse_product(reader);
    while (reader.next() == '+') {
      reader.accept('+');
      parse_product(reader);
      add_step(ShapeStep::kAdd);
    }
  }

  constexpr void parse_product(Reader& reader) {
    parse_operand(reader);
    for (;;) {
      const char next = reader.next();
      if (next == '*' || next == '/') {
        reader.accept(next);
        parse_operand(reader);
        add_step(next == '*' ? ShapeStep::kMultiply : ShapeStep::kDivide);
      } else if (is_letter(next) && !reader.ends()) {  // "2 D"
        parse_operand(reader);
        add_step(ShapeStep::kMultiply);
      } else {
        return;
      }
    }
  }

  constexpr void parse_operand(Reader& reader) {
    if (reader.accept('(')) {
      parse_sum(reader);
      if (!reader.accept(')')) wrong_shape("a parenthesis must be closed");
      return;
    }
    if (is_digit(reader.next())) {
      int16_t number = 0;
      while (reader.at < reader.text.size() && is_digit(reader.text[reader.at]))
        number = static_cast<int16_t>(10 * number + (reader.text[reader.at++] - '0'));
      add_step(ShapeStep::kNumber, number);
      return;
    }
    const std::string_view name = reader.accept('`') ? reader.quoted() : reader.words();
    const size_t place = place_of(name);
    if (place == name_count_) names_[name_count_++].name = name;
    add_step(ShapeStep::kName, static_cast<int16_t>(place));
  }

  constexpr void add_step(ShapeStep::Code code, int16_t value = 0) {
    steps_[step_count_++] = {code, value};
  }

  struct Parsed {
    std::string_view text;
    ShapeForms forms;
  };

  Parsed parsed_[12] = {};
  Shape shapes_[24] = {};
  ShapeAxis axes_[96] = {};
  ShapeStep steps_[128] = {};
  SizeName names_[kMostSizes] = {};
  size_t form_count_ = 0, shape_count_ = 0, axis_count_ = 0, step_count_ = 0, name_count_ = 0;
};

// Members for the sizes of these names, which Sizes::as and a kernel's parameters are filled by:
//   struct Dims { NSA_SIZES(T1, N1, D) };
#define NSA_SIZES(...)                                    \
  static constexpr std::string_view kSizes{#__VA_ARGS__}; \
  int64_t __VA_ARGS__;

}  // namespace nsa
