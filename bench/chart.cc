// SPDX-License-Identifier: Apache-2.0
// Draws two pictures, as text and as SVG: bars of the ADD's median time, and bars of ADDs per second.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "bench/report.h"

namespace berth::bench {
namespace {

struct Bar {
  std::string label;
  double value;
  std::string text;  // the value, for people
};

struct Picture {
  std::string title;
  std::vector<Bar> bars;
  [[nodiscard]] double Largest() const {
    double largest = 0;
    for (const Bar& bar : bars) largest = std::max(largest, bar.value);
    return largest;
  }
};

std::vector<Picture> Pictures(const std::vector<CallersFigures>& all) {
  std::vector<Picture> pictures;
  for (const CallersFigures& figures : all) {
    Picture time{.title = "ADD, median ms, " + CallersText(figures.callers) + " (shorter is better)", .bars = {}};
    Picture rate{.title = "ADDs per second, " + CallersText(figures.callers) + " (longer is better)", .bars = {}};
    for (const ContenderFigures& contender : figures.contenders) {
      time.bars.push_back({contender.name, contender.add.p50_ms, fmt::format("{:.2f}", contender.add.p50_ms)});
      rate.bars.push_back({contender.name, contender.add.per_second, fmt::format("{:.0f}", contender.add.per_second)});
    }
    pictures.push_back(std::move(time));
    if (figures.callers > 1) pictures.push_back(std::move(rate));
  }
  return pictures;
}

// A bar in steps of an eighth of a character.
std::string Blocks(double share, int width) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = std::max(1, static_cast<int>(std::lround(share * width * 8)));
  std::string blocks;
  for (int whole = 0; whole < eighths / 8; ++whole) blocks += "█";
  return blocks + kEighths[eighths % 8];
}

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return escaped;
}

// berth in colour, the others grey.
const char* Colour(const std::string& label) {
  if (label == kAgentName) return "#0b6e99";
  if (label == kDirectName) return "#6fb3d2";
  return label == kRawName ? "#d0d0d0" : "#9a9a9a";
}

constexpr int kSvgWidth = 720;
constexpr int kSvgLabel = 130;
constexpr int kSvgRow = 22;
constexpr int kSvgTitle = 34;

}  // namespace

std::string TerminalChart(const std::vector<CallersFigures>& all) {
  constexpr int kWidth = 50;
  std::string text;
  for (const Picture& picture : Pictures(all)) {
    text += picture.title + "\n";
    for (const Bar& bar : picture.bars) {
      fmt::format_to(std::back_inserter(text),
                     "  {:<14}{} {}\n",
                     bar.label,
                     Blocks(bar.value / picture.Largest(), kWidth),
                     bar.text);
    }
    text += '\n';
  }
  return text;
}

std::string SvgChart(const std::vector<CallersFigures>& all) {
  std::string body;
  int y = 0;
  const auto out = std::back_inserter(body);
  for (const Picture& picture : Pictures(all)) {
    fmt::format_to(out, "<text x=\"0\" y=\"{}\" font-weight=\"bold\">{}</text>\n", y + 22, Escaped(picture.title));
    y += kSvgTitle;
    for (const Bar& bar : picture.bars) {
      const double length = std::max(1.0, bar.value / picture.Largest() * (kSvgWidth - kSvgLabel - 70));
      fmt::format_to(
          out, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", kSvgLabel - 8, y + 14, Escaped(bar.label));
      fmt::format_to(out,
                     "<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"16\" fill=\"{}\"/>",
                     kSvgLabel,
                     y + 1,
                     length,
                     Colour(bar.label));
      fmt::format_to(out, "<text x=\"{:.1f}\" y=\"{}\">{}</text>\n", kSvgLabel + length + 6, y + 14, bar.text);
      y += kSvgRow;
    }
    y += 10;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-10 0 {} {}\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect x=\"-10\" width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}</svg>\n",
      kSvgWidth + 20,
      y + 10,
      body);
}

}  // namespace berth::bench
